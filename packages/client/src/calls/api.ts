import type { ApiRequest, Connection, Reply } from '../http/connection.ts'
import { unexpectedAnswer } from '../http/error-from-response.ts'
import type { Retrier } from '../http/retry.ts'

/** What every method of a client may be given besides its arguments. */
export interface CallOptions {
  /** Ends the call: it rejects with the reason of the signal. */
  signal?: AbortSignal
  /** In place of those of the client: 0 for one try alone. */
  retries?: number
}

/** A request, and the statuses that are a success of it. */
export interface ApiCall extends ApiRequest {
  expect: readonly number[]
}

/** Requests that are tried again, and answers that are what was expected. */
export interface Api {
  /** The whole answer. */
  call(call: ApiCall, options?: CallOptions): Promise<{ status: number; body: Uint8Array }>
  /**
   * What `read` makes of the answers, which are read as fast as the result is. `next` is asked for a request at the
   * start and after each break, and has to go on behind what was yielded.
   */
  stream<T>(next: () => ApiCall, read: (reply: Reply) => AsyncIterable<T>, options?: CallOptions): AsyncGenerator<T>
}

/** The longest answer that is read as a whole. */
const answerBytesMax = 64 * 1024 * 1024

export function createApi(connection: Connection, { retry, retryEach }: Retrier): Api {
  return {
    call(call, options = {}) {
      const { signal } = options
      return retry(async (timeoutMs) => {
        const { status, body } = await send(connection, call, { timeoutMs, isStream: false, signal })
        return { status, body: await bytesOf(body) }
      }, options)
    },

    stream(next, read, options = {}) {
      const { signal } = options
      return retryEach(async function* (timeoutMs) {
        yield* read(await send(connection, next(), { timeoutMs, isStream: true, signal }))
      }, options)
    },
  }
}

async function send(connection: Connection, call: ApiCall, patience: Parameters<Connection['send']>[1]) {
  const reply = await connection.send(call, patience)
  if (call.expect.includes(reply.status)) return reply
  reply.leave()
  throw unexpectedAnswer(`its status is ${reply.status}`)
}

async function bytesOf(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.length
    if (size > answerBytesMax) throw unexpectedAnswer('it does not end')
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
