import type { IncomingMessage } from 'node:http'
import { batchBytesMax, batchTooLarge, IngestError } from '@ingest/core'
import { inflateBody, isGzip } from './inflate-body.ts'

/**
 * The body of a request to a node server, inflated if `gzip`. A body parser that ran before may have left it as bytes
 * in `req.body`, inflated or not.
 *
 * @throws {IngestError} as `EdgeRequest.readBody` says.
 */
export async function readBody(req: IncomingMessage & { body?: unknown }, gzip: boolean): Promise<Uint8Array> {
  if (req.body instanceof Uint8Array) {
    if (req.body.length > batchBytesMax) throw batchTooLarge(req.body.length)
    return gzip && isGzip(req.body) ? inflateBody(req.body) : req.body
  }
  if (req.readableDidRead || req.readableEnded) throw bodyConsumed()
  const body = await collect(req)
  return gzip ? inflateBody(body) : body
}

/** The refusal of a body that is no longer there as it was sent. */
export function bodyConsumed(): IngestError {
  return new IngestError(
    'internal-error',
    'The body was read before it came here, and events are kept byte for byte: mount this handler before the body parser.',
  )
}

/** The refusal of a body whose sender left, which nobody is there to read: the sender knows only that it has to retry. */
export function bodyCutShort(): IngestError {
  return new IngestError('request-timeout', 'The body ended before all of it was here.')
}

function collect(req: IncomingMessage): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = []
    let size = 0
    function take(chunk: Uint8Array): void {
      size += chunk.length
      chunks.push(chunk)
      if (size <= batchBytesMax) return
      req.off('data', take)
      req.pause()
      reject(batchTooLarge(size))
    }
    function leave(): void {
      if (!req.readableEnded) reject(bodyCutShort())
    }
    req.on('data', take)
    req.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size)))
    req.on('error', leave)
    req.on('close', leave)
  })
}
