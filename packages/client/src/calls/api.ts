import { type ErrorCode, IngestError } from '@ingest/core'
import * as wire from '@ingest/core/wire'
import { type ApiRequest, type Connection, type HttpResponse, readBody } from '../http/connection.ts'
import { unexpectedResponse } from '../http/error-from-response.ts'
import type { CallOptions, Retry } from '../http/retry.ts'

/** Sends requests, with retries. */
export interface Api {
  /** Resolves with the body of the response. */
  bytes(request: ApiRequest, options?: CallOptions): Promise<Buffer>
  /**
   * Resolves with the values of a JSON body.
   *
   * @throws {IngestError} `unexpected-response` for a body that is not of this schema
   */
  json<T>(schema: wire.WireSchema, request: ApiRequest, options?: CallOptions): Promise<T>
  /**
   * Yields the items that `read` yields for each response, with backpressure. `next` is called for the first request
   * and after each failure; it must continue after the last item.
   */
  stream<T>(
    next: () => ApiRequest,
    read: (response: HttpResponse) => AsyncIterable<T>,
    options?: CallOptions,
  ): AsyncGenerator<T>
}

/** Maximum bytes of a response that is buffered. */
const bodyBytesMax = 64 * 1024 * 1024

export function createApi(connection: Connection, retry: Retry): Api {
  const bytes: Api['bytes'] = (request, options = {}) => {
    const { signal } = options
    return retry.run(async (times) => {
      const { body } = await connection.send(request, { ...times, signal })
      const bytes = await readBody(body, bodyBytesMax + 1)
      if (bytes.length <= bodyBytesMax) return bytes
      throw unexpectedResponse(`it is longer than ${bodyBytesMax} bytes`)
    }, options)
  }

  return {
    bytes,
    json: async (schema, request, options) => parseBody(schema, request, await bytes(request, options)),

    stream(next, read, options = {}) {
      const { signal } = options
      return retry.runStream(async function* (times) {
        const response = await connection.send(next(), { ...times, signal })
        for await (const item of read(response)) {
          response.restartTimeout()
          yield item
        }
      }, options)
    },
  }
}

function parseBody<T>(schema: wire.WireSchema, { method = 'GET', path }: ApiRequest, body: Buffer): T {
  let value: unknown
  try {
    value = JSON.parse(body.toString())
  } catch {
    throw unexpectedResponse('it is not JSON')
  }
  if (!wire.isBody(schema, value)) throw unexpectedResponse(`it is not the response to ${method} ${path}`)
  return wire.fromWire(schema, value as object)
}

/** Undefined in place of an error with this code. A 404 caused by a wrong url is still thrown. */
export async function undefinedOn<T>(code: ErrorCode, call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (error instanceof IngestError && error.status === 404 && error.code === code) return undefined
    throw error
  }
}
