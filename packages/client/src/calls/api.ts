import type { ApiRequest, Connection, HttpResponse, SendOptions } from '../http/connection.ts'
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

/** The longest response that is buffered. */
const responseBytesMax = 64 * 1024 * 1024

export function createApi(connection: Connection, retry: Retry): Api {
  return {
    call(call, options = {}) {
      const { signal } = options
      return retry.run(async (timeoutMs) => {
        const { status, body } = await send(connection, call, { timeoutMs, isStream: false, signal })
        return { status, body: await readAll(body) }
      }, options)
    },

    stream(next, read, options = {}) {
      const { signal } = options
      return retry.runStream(async function* (timeoutMs) {
        yield* read(await send(connection, next(), { timeoutMs, isStream: true, signal }))
      }, options)
    },
  }
}

async function send(connection: Connection, call: ApiCall, options: SendOptions): Promise<HttpResponse> {
  const response = await connection.send(call, options)
  if (call.expect.includes(response.status)) return response
  response.discard()
  throw unexpectedResponse(`its status is ${response.status}`)
}

async function readAll(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > responseBytesMax) throw unexpectedResponse(`it is longer than ${responseBytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
