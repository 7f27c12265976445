import type { IncomingMessage } from 'node:http'
import { gunzip } from 'node:zlib'
import { IngestError } from '@ingest/core'
import type { BodyLimit } from './request.ts'

/**
 * The bytes inside a gzip body, never more than the limit: it is counted while inflating.
 *
 * @throws {IngestError} what the limit refuses with; `malformed-body` for what is not gzip or ends early.
 */
export function inflateBody(body: Uint8Array, { bytesMax, tooLarge }: BodyLimit): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    gunzip(body, { maxOutputLength: bytesMax }, (error, inflated) => {
      if (!error) resolve(inflated)
      else if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') reject(tooLarge(bytesMax + 1))
      else
        reject(new IngestError('malformed-body', 'The body is not gzip, or not all of it, as Content-Encoding says.'))
    })
  })
}

/** Whether the bytes begin as gzip does (RFC 1952 section 2.3.1), which no JSON does. */
export function isGzip(body: Uint8Array): boolean {
  return body[0] === 0x1f && body[1] === 0x8b
}

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
  memory?: Uint8Array,
): Promise<Uint8Array> {
  if (req.body instanceof Uint8Array) {
    if (req.body.length > limit.bytesMax) throw limit.tooLarge(req.body.length)
    return gzip && isGzip(req.body) ? inflateBody(req.body, limit) : req.body
  }
  if (req.readableDidRead || req.readableEnded) throw bodyConsumed()
  const body = await collect(req, limit, memory)
  return gzip ? inflateBody(body, limit) : body
}

/** The refusal of a body that is no longer there as it was sent. */
export function bodyConsumed(): IngestError {
  return new IngestError(
    'internal-error',
    'The body was read before it came here, and what comes is kept byte for byte: mount this handler before the body parser.',
  )
}

/**
 * The refusal of a body whose sender left, which nobody is there to read: the sender knows only that it has to retry.
 */
export function bodyCutShort(): IngestError {
  return new IngestError('request-timeout', 'The body ended before all of it was here.')
}

/** How many chunks a body of any size may have; and one more for each {@link pieceBytesMin} bytes. */
const piecesMax = 4096
const pieceBytesMin = 8

/** The refusal of a body in tiny chunks, each of which costs as much as a large one. */
function chunksTooSmall(): IngestError {
  return new IngestError('malformed-request', `Send the body in larger chunks, of at least ${pieceBytesMin} bytes.`)
}

const nothing: Uint8Array = new Uint8Array()

function collect(req: IncomingMessage, { bytesMax, tooLarge }: BodyLimit, memory = nothing): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // what does not go into the memory, from the first piece on that finds no room there
    const pieces: Uint8Array[] = []
    let inMemory = 0
    let size = 0
    let count = 0
    function refuse(error: IngestError): void {
      req.off('data', take)
      req.pause()
      reject(error)
    }
    function take(piece: Uint8Array): void {
      size += piece.length
      if (size > bytesMax) refuse(tooLarge(size))
      else if (++count > piecesMax + size / pieceBytesMin) refuse(chunksTooSmall())
      else if (pieces.length === 0 && size <= memory.length) {
        memory.set(piece, inMemory)
        inMemory = size
      } else pieces.push(piece)
    }
    function end(): void {
      if (pieces.length === 0) resolve(memory.subarray(0, size))
      else if (inMemory === 0 && pieces.length === 1) resolve(pieces[0] as Uint8Array)
      else resolve(Buffer.concat([memory.subarray(0, inMemory), ...pieces], size))
    }
    function leave(): void {
      if (!req.readableEnded) reject(bodyCutShort())
    }
    req.on('data', take)
    req.on('end', end)
    req.on('error', leave)
    req.on('close', leave)
  })
}
