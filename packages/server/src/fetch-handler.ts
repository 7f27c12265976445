import type { EmbeddedIngest } from '@ingest/core'
import { bodyConsumed, bodyTruncated, inflateBody } from './http/body.ts'
import { clientDisconnected } from './http/cancellation.ts'
import { type BodyLimit, parseFetchHeaders } from './http/request.ts'
import { type HttpResponse, isStream } from './http/response.ts'
import type { BodyStream } from './http/stream.ts'
import { createPublicRouter, type HandlerOptions } from './public-router.ts'

/** Responds to a request of the fetch API; never rejects. */
export type FetchHandler = (request: Request) => Promise<Response>

/**
 * A function from Request to Response, for Hono and other frameworks of the fetch API:
 *
 * ```ts
 * app.mount('/', toFetchHandler(ingest))
 * ```
 *
 * @throws {IngestError} `invalid-argument` for invalid options.
 */
export function toFetchHandler(ingest: EmbeddedIngest, options: HandlerOptions = {}): FetchHandler {
  const router = createPublicRouter(ingest, options)
  return async (request) => {
    const { pathname, search } = new URL(request.url)
    const client = watchClient(request)
    const { status, headers, body } = await router.respond({
      method: request.method,
      path: pathname,
      query: search.slice(1),
      headers: parseFetchHeaders(request.headers),
      readBody: (gzip, limit) => readFetchBody(request, gzip, limit),
      signal: () => client.signal,
    })
    return new Response(toFetchBody(request.method, body, client.leave), { status, headers })
  }
}

/**
 * A signal that aborts with that of the request or when `leave` is called: frameworks do either when a client
 * disconnects.
 */
function watchClient(request: Request): { signal: AbortSignal; leave(): void } {
  const controller = new AbortController()
  const leave = () => controller.abort(clientDisconnected())
  if (request.signal.aborted) leave()
  request.signal.addEventListener('abort', leave, { once: true })
  return { signal: controller.signal, leave }
}

/** Converts the body of a response to one of `Response`: null for an empty one. */
function toFetchBody(
  method: string,
  body: HttpResponse['body'],
  leave: () => void,
): string | Uint8Array | ReadableStream | null {
  if (isStream(body)) return toReadableStream(body, leave)
  return method === 'HEAD' || body.length === 0 ? null : body
}

/** Pulls one chunk at a time, on demand. */
function toReadableStream(stream: BodyStream, leave: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await stream.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        leave()
        await stream.return()
      },
    },
    { highWaterMark: 0 },
  )
}

async function readFetchBody(request: Request, gzip: boolean, limit: BodyLimit): Promise<Uint8Array> {
  if (request.bodyUsed) throw bodyConsumed()
  const body = request.body ? await collect(request.body, limit) : new Uint8Array()
  limit.complete?.()
  return gzip ? inflateBody(body, limit) : body
}

async function collect(
  stream: ReadableStream<Uint8Array>,
  { bytesMax, tooLarge, receive }: BodyLimit,
): Promise<Uint8Array> {
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read().catch(() => Promise.reject(bodyTruncated()))
    if (done) return Buffer.concat(chunks, size)
    size += value.length
    chunks.push(value)
    try {
      await receive?.(value.length)
      if (size > bytesMax) throw tooLarge(size)
    } catch (error) {
      reader.cancel().catch(() => {})
      throw error
    }
  }
}
