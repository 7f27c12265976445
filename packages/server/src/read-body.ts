import type { IncomingMessage } from 'node:http'
import { IngestError } from '@ingest/core'
import type { BodyLimit } from './edge-request.ts'
import { inflateBody, isGzip } from './inflate-body.ts'

/**
 * The body of a request to a node server, inflated if `gzip`. A body parser that ran before may have left it as bytes
 * in `req.body`, inflated or not.
 *
 * @throws {IngestError} as `EdgeRequest.readBody` says.
 */
export async function readBody(
  req: IncomingMessage & { body?: unknown },
  gzip: boolean,
  limit: BodyLimit,
): Promise<Uint8Array> {
  if (req.body instanceof Uint8Array) {
    if (req.body.length > limit.bytesMax) throw limit.tooLarge(req.body.length)
    return gzip && isGzip(req.body) ? inflateBody(req.body, limit) : req.body
  }
  if (req.readableDidRead || req.readableEnded) throw bodyConsumed()
  const body = await collect(req, limit)
  return gzip ? inflateBody(body, limit) : body
}

/** The refusal of a body that is no longer there as it was sent. */
export function bodyConsumed(): IngestError {
  return new IngestError(
    'internal-error',
    'The body was read before it came here, and what comes is kept byte for byte: mount this handler before the body parser.',
  )
}

/** The refusal of a body whose sender left, which nobody is there to read: the sender knows only that it has to retry. */
export function bodyCutShort(): IngestError {
  return new IngestError('request-timeout', 'The body ended before all of it was here.')
}

function collect(req: IncomingMessage, { bytesMax, tooLarge }: BodyLimit): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const announced = Math.min(Number(req.headers['content-length'] ?? 0), bytesMax)
    let body: Uint8Array = nothing
    let size = 0
    function take(chunk: Uint8Array): void {
      // most bodies are one piece; others are put together as they come, so that their pieces can go at once
      if (size === 0 && chunk.length >= announced) body = chunk
      else {
        if (size + chunk.length > body.length || size === 0) body = grown(body.subarray(0, size), Math.max(announced, 2 * (size + chunk.length)))
        if (size + chunk.length <= bytesMax) body.set(chunk, size)
      }
      size += chunk.length
      if (size <= bytesMax) return
      req.off('data', take)
      req.pause()
      reject(tooLarge(size))
    }
    function leave(): void {
      if (!req.readableEnded) reject(bodyCutShort())
    }
    req.on('data', take)
    req.on('end', () => resolve(body.subarray(0, size)))
    req.on('error', leave)
    req.on('close', leave)
  })
}

const nothing = new Uint8Array()

function grown(bytes: Uint8Array, size: number): Uint8Array {
  const larger = Buffer.allocUnsafeSlow(size)
  larger.set(bytes)
  return larger
}
