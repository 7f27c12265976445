import type { IncomingMessage } from 'node:http'
import { isUint8Array } from 'node:util/types'
import { gunzip } from 'node:zlib'
import { IngestError } from '@ingest/core'
import type { BodyLimit, HttpRequest, RequestHeaders } from './request.ts'

/** A body limit whose error has this `message`, which names the remedy. */
export function limitBody(bytesMax: number, code: 'body-too-large' | 'chunk-too-large', message: string): BodyLimit {
  return { bytesMax, tooLarge: (actual) => new IngestError(code, message, { limit: bytesMax, actual }) }
}

/** A kind of body that a route accepts, with its media type. */
export interface BodyKind {
  limit: BodyLimit
}

/**
 * Finds the kind of a body by its media type, and whether it is gzip.
 *
 * @throws {IngestError} in this order: `unsupported-media-type`, `unsupported-coding`, `malformed-request` for an
 *   invalid length, `limit.tooLarge`.
 */
export function checkBodyHeaders<Kind extends BodyKind>(
  { values }: RequestHeaders,
  kinds: ReadonlyMap<string, Kind>,
): { kind: Kind; gzip: boolean } {
  const kind = kinds.get(mediaTypeOf(values['content-type']))
  if (!kind) {
    const types = [...kinds.keys()].join(' or ')
    const what = values['content-type'] === undefined ? 'Content-Type is missing' : 'This Content-Type is not supported'
    throw new IngestError('unsupported-media-type', `${what}: send ${types}.`)
  }
  const gzip = isGzipCoding(values['content-encoding'])
  checkTransferCoding(values['transfer-encoding'])
  checkLength(values['content-length'], kind.limit)
  return { kind, gzip }
}

function mediaTypeOf(value = ''): string {
  if (value === 'application/json') return value
  return value.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

function isGzipCoding(value = ''): boolean {
  const coding = value.trim().toLowerCase()
  if (coding === '' || coding === 'identity') return false
  if (coding === 'gzip' || coding === 'x-gzip') return true
  throw new IngestError('unsupported-coding', 'Content-Encoding must be gzip or absent.')
}

/** Node decodes `chunked` and no other transfer coding. */
function checkTransferCoding(value: string | undefined): void {
  if (value === undefined || value.trim().toLowerCase() === 'chunked') return
  throw new IngestError('unsupported-coding', 'Transfer-Encoding must be chunked or absent.')
}

function checkLength(value: string | undefined, limit: BodyLimit): void {
  if (value === undefined) return
  if (!/^\d+$/.test(value)) throw new IngestError('malformed-request', 'Content-Length must be a number of bytes.')
  if (Number(value) > limit.bytesMax) throw limit.tooLarge(Number(value))
}

/** How the bytes of a body are charged to a project. */
export interface BodyCharge {
  /** Charges the declared length before the body is read; throws to refuse it. */
  admit(bytes: number): void | Promise<void>
  /** Charges the bytes beyond the declared length. */
  charge(bytes: number): unknown
}

/**
 * Reads a body and charges the larger of its declared and its inflated length. An undeclared length is admitted as 1.
 *
 * @throws {IngestError} what `admit` and `HttpRequest.readBody` throw.
 */
export async function readChargedBody(
  request: HttpRequest,
  { gzip, limit }: { gzip: boolean; limit: BodyLimit },
  { admit, charge }: BodyCharge,
): Promise<{ body: Uint8Array; chargedBytes: number }> {
  const declaredBytes = Math.max(1, Number(request.headers.values['content-length'] ?? 0))
  const admitted = admit(declaredBytes)
  if (admitted) await admitted
  const body = await request.readBody(gzip, limit)
  const chargedBytes = Math.max(declaredBytes, body.length)
  const charged = charge(chargedBytes - declaredBytes)
  if (charged instanceof Promise) await charged
  return { body, chargedBytes }
}

/**
 * Inflates a gzip body. The limit is checked while inflating.
 *
 * @throws {IngestError} `limit.tooLarge`; `malformed-body` for invalid or truncated gzip.
 */
export function inflateBody(body: Uint8Array, { bytesMax, tooLarge }: BodyLimit): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    gunzip(body, { maxOutputLength: bytesMax }, (error, inflated) => {
      if (!error) resolve(inflated)
      else if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') reject(tooLarge(bytesMax + 1))
      else reject(new IngestError('malformed-body', 'The body is not valid gzip, which Content-Encoding declares.'))
    })
  })
}

/** Whether the bytes start as gzip (RFC 1952 section 2.3.1). No JSON does. */
export function isGzip(body: Uint8Array): boolean {
  return body[0] === 0x1f && body[1] === 0x8b
}

/**
 * Reads the body of a node:http request, inflated if `gzip`. A body parser before this handler may have left the bytes
 * in `req.body`, inflated or not.
 *
 * @throws {IngestError} see `HttpRequest.readBody`
 */
export async function readBody(
  req: IncomingMessage & { body?: unknown },
  gzip: boolean,
  limit: BodyLimit,
): Promise<Uint8Array> {
  if (isUint8Array(req.body)) {
    if (req.body.length > limit.bytesMax) throw limit.tooLarge(req.body.length)
    limit.complete?.()
    // a copy: the result may be transferred to another thread
    return gzip && isGzip(req.body) ? inflateBody(req.body, limit) : Uint8Array.from(req.body)
  }
  if (req.readableDidRead || req.readableEnded) throw bodyConsumed()
  // a destroyed request emits no further 'close'
  if (req.destroyed) throw bodyTruncated()
  const body = await collect(req, limit)
  limit.complete?.()
  return gzip ? inflateBody(body, limit) : body
}

/** The error for a body that a body parser has consumed. */
export function bodyConsumed(): IngestError {
  return new IngestError(
    'body-consumed',
    'The body was consumed before it reached Ingest, which stores its bytes as sent: mount its handler before the body parser.',
  )
}

/** The error for a truncated body: retryable, as only the connection failed. */
export function bodyTruncated(): IngestError {
  return new IngestError('request-timeout', 'The connection was closed before the end of the body.')
}

/** How many chunks a body of any size may have; one more is allowed per {@link chunkBytesMin} bytes. */
const chunksMax = 4096
const chunkBytesMin = 8

/** The error for a body in tiny chunks, each of which costs as much as a large one. */
function chunksTooSmall(): IngestError {
  return new IngestError('malformed-request', `Send the body in larger chunks, of at least ${chunkBytesMin} bytes.`)
}

function collect(req: IncomingMessage, { bytesMax, tooLarge, receive }: BodyLimit): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = []
    let size = 0
    let isRefused = false
    function refuse(error: unknown): void {
      isRefused = true
      req.off('data', add)
      req.pause()
      reject(error)
    }
    function add(chunk: Uint8Array): void {
      try {
        const turn = receive?.(chunk.length)
        if (turn) waitFor(turn)
      } catch (error) {
        refuse(error)
        return
      }
      size += chunk.length
      chunks.push(chunk)
      if (size > bytesMax) refuse(tooLarge(size))
      else if (chunks.length > chunksMax + size / chunkBytesMin) refuse(chunksTooSmall())
    }
    async function waitFor(turn: Promise<void>): Promise<void> {
      req.pause()
      await turn
      // the code that discards a refused body resumes it
      if (!isRefused) req.resume()
    }
    function end(): void {
      resolve(chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks, size))
    }
    function truncate(): void {
      if (!req.readableEnded) reject(bodyTruncated())
    }
    req.on('data', add)
    req.on('end', end)
    req.on('error', truncate)
    req.on('close', truncate)
  })
}
