import { batchBytesMax, batchTooLarge, type EmbeddedIngest } from '@ingest/core'
import { createRouter, type HandlerOptions } from './create-router.ts'
import { inflateBody } from './inflate-body.ts'
import { bodyConsumed, bodyCutShort } from './read-body.ts'
import { parseFetchHeaders } from './request-headers.ts'

/** Answers a request of the fetch API; never rejects. */
export type FetchHandler = (request: Request) => Promise<Response>

/**
 * The service as a function from Request to Response, for Hono and its like:
 *
 * ```ts
 * app.mount('/', toFetchHandler(ingest))
 * ```
 *
 * @throws {IngestError} `invalid-argument` for rate limits that cannot be.
 */
export function toFetchHandler(ingest: EmbeddedIngest, options: HandlerOptions = {}): FetchHandler {
  const router = createRouter(ingest, options)
  return async (request) => {
    const { status, headers, body } = await router.answer({
      method: request.method,
      path: new URL(request.url).pathname,
      headers: parseFetchHeaders(request.headers),
      readBody: (gzip) => readFetchBody(request, gzip),
    })
    return new Response(request.method === 'HEAD' ? null : body, { status, headers })
  }
}

async function readFetchBody(request: Request, gzip: boolean): Promise<Uint8Array> {
  if (request.bodyUsed) throw bodyConsumed()
  const body = request.body ? await collect(request.body) : new Uint8Array()
  return gzip ? inflateBody(body) : body
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read().catch(() => Promise.reject(bodyCutShort()))
    if (done) return Buffer.concat(chunks, size)
    size += value.length
    chunks.push(value)
    if (size <= batchBytesMax) continue
    reader.cancel().catch(() => {})
    throw batchTooLarge(size)
  }
}
