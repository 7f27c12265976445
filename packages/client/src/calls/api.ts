import type { ApiRequest, Connection, HttpResponse } from '../http/connection.ts'
import { unexpectedResponse } from '../http/error-from-response.ts'
import type { Retry } from '../http/retry.ts'

/** Options that every method of a client takes. */
export interface CallOptions {
  /** Ends the call, which rejects with the reason of the signal. */
  signal?: AbortSignal
  /** In place of the `retries` of the client: 0 for a single attempt. */
  retries?: number
}

/** A request and its success statuses. */
export interface ApiCall extends ApiRequest {
  expect: readonly number[]
}

/** Requests with retries. */
export interface Api {
  /** Resolves with the whole response. */
  call(call: ApiCall, options?: CallOptions): Promise<{ status: number; body: Uint8Array }>
  /**
   * Yields what `read` yields for the responses, with backpressure. `next` is called for the first request and after each
   * failure, and has to continue after the last item.
   */
  stream<T>(
    next: () => ApiCall,
    read: (response: HttpResponse) => AsyncIterable<T>,
    options?: CallOptions,
  ): AsyncGenerator<T>
}

export function createApi(connection: Connection, retry: Retry): Api {
  return {
    call(call, options = {}) {
      const { signal } = options
      return retry.run(async (timeoutMs) => {
        const response = await connection.call(call, { timeoutMs, signal })
        checkStatus(call, response.status)
        return response
      }, options)
    },

    stream(next, read, options = {}) {
      const { signal } = options
      return retry.runStream(async function* (timeoutMs) {
        const call = next()
        const response = await connection.stream(call, { timeoutMs, signal })
        try {
          checkStatus(call, response.status)
        } catch (error) {
          response.discard()
          throw error
        }
        yield* read(response)
      }, options)
    },
  }
}

function checkStatus({ expect }: ApiCall, status: number): void {
  if (!expect.includes(status)) throw unexpectedResponse(`its status is ${status}`)
}
