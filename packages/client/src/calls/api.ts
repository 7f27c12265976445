import type { ApiRequest, Connection, HttpResponse } from '../http/connection.ts'
import type { Retry } from '../http/retry.ts'

/** Options that every method of a client takes. */
export interface CallOptions {
  /** Ends the call, which rejects with the reason of the signal. */
  signal?: AbortSignal
  /** In place of the `retries` of the client: 0 for a single attempt. */
  retries?: number
}

/** Requests with retries. */
export interface Api {
  /** Resolves with the whole response. */
  call(call: ApiRequest, options?: CallOptions): Promise<{ status: number; body: Uint8Array }>
  /**
   * Yields what `read` yields for the responses, with backpressure. `next` is called for the first request and after each
   * failure, and has to continue after the last item.
   */
  stream<T>(
    next: () => ApiRequest,
    read: (response: HttpResponse) => AsyncIterable<T>,
    options?: CallOptions,
  ): AsyncGenerator<T>
}

export function createApi(connection: Connection, retry: Retry): Api {
  return {
    call(call, options = {}) {
      const { signal } = options
      return retry.run((timeoutMs) => connection.call(call, { timeoutMs, signal }), options)
    },

    stream(next, read, options = {}) {
      const { signal } = options
      return retry.runStream(async function* (timeoutMs) {
        const response = await connection.stream(next(), { timeoutMs, signal })
        for await (const item of read(response)) {
          response.restartTimeout()
          yield item
        }
      }, options)
    },
  }
}
