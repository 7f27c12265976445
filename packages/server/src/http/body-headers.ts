import { IngestError } from '@ingest/core'
import type { BodyLimit, RequestHeaders } from './request.ts'

/** A body that a route takes, by its media type. */
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
    throw new IngestError('unsupported-media-type', `The body must be sent with Content-Type: ${types}.`)
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
