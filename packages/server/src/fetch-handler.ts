import type { EmbeddedIngest } from '@ingest/core'
import { bodyConsumed, bodyCutShort, inflateBody } from './http/body.ts'
import type { BodyLimit } from './http/request.ts'
import { parseFetchHeaders } from './http/request.ts'
import { type Answer, isPieces, type Pieces } from './http/response.ts'
import { createRouter, type HandlerOptions } from './router.ts'

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
    const { pathname, search } = new URL(request.url)
    const { status, headers, body } = await router.answer({
      method: request.method,
      path: pathname,
      query: search.slice(1),
      headers: parseFetchHeaders(request.headers),
      readBody: (gzip, limit) => readFetchBody(request, gzip, limit),
      onLeave: (action) => whenAborted(request.signal, action),
    })
    return new Response(toFetchBody(request.method, body), { status, headers })
  }
}

function whenAborted(signal: AbortSignal, action: () => void): () => void {
  if (signal.aborted) action()
  signal.addEventListener('abort', action)
  return () => signal.removeEventListener('abort', action)
}

/** Null where there must be none. */
function toFetchBody(method: string, body: Answer['body']): string | Uint8Array | ReadableStream | null {
  if (isPieces(body)) return toStream(body)
  return method === 'HEAD' || body.length === 0 ? null : body
}

/** Reads a piece whenever one is wanted. */
function toStream(pieces: Pieces): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await pieces.return()
      },
    },
    { highWaterMark: 0 },
  )
}

async function readFetchBody(request: Request, gzip: boolean, limit: BodyLimit): Promise<Uint8Array> {
  if (request.bodyUsed) throw bodyConsumed()
  const body = request.body ? await collect(request.body, limit) : new Uint8Array()
  return gzip ? inflateBody(body, limit) : body
}

async function collect(stream: ReadableStream<Uint8Array>, { bytesMax, tooLarge }: BodyLimit): Promise<Uint8Array> {
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read().catch(() => Promise.reject(bodyCutShort()))
    if (done) return Buffer.concat(chunks, size)
    size += value.length
    chunks.push(value)
    if (size <= bytesMax) continue
    reader.cancel().catch(() => {})
    throw tooLarge(size)
  }
}
