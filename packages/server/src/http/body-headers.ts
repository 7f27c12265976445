import { IngestError } from '@ingest/core'
import type { BodyLimit, RequestHeaders } from './request.ts'

/** What a route does with a body of one media type, or at least how large that may be. */
export interface BodyKind {
  limit: BodyLimit
}

/**
 * The kind of body that the headers of a request announce, by its media type, and whether it is gzip.
 *
 * @throws {IngestError} in this order: `repeated-header`, `unsupported-media-type`, `unsupported-coding`,
 *   `malformed-request` for a length that is no number, and what the limit refuses with.
 */
export function checkBodyHeaders<Kind extends BodyKind>(
  headers: RequestHeaders,
  kinds: ReadonlyMap<string, Kind>,
): { kind: Kind; gzip: boolean } {
  checkRepeated(headers)
  const { values } = headers
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

/** @throws {IngestError} `repeated-header` */
export function checkRepeated({ repeated }: RequestHeaders): void {
  if (repeated.length === 0) return
  throw new IngestError('repeated-header', `The header ${repeated[0]} must not come more than once.`)
}

function mediaTypeOf(value = ''): string {
  if (value === 'application/json') return value
  return value.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

function isGzipCoding(value = ''): boolean {
  const coding = value.trim().toLowerCase()
  if (coding === '' || coding === 'identity') return false
  if (coding === 'gzip' || coding === 'x-gzip') return true
  throw new IngestError('unsupported-coding', 'The body may be sent with Content-Encoding: gzip, or without any.')
}

/** Node takes `chunked` off; any other coding would still be on the body. */
function checkTransferCoding(value: string | undefined): void {
  if (value === undefined || value.trim().toLowerCase() === 'chunked') return
  throw new IngestError('unsupported-coding', 'The body may be sent with Transfer-Encoding: chunked, or without any.')
}

function checkLength(value: string | undefined, limit: BodyLimit): void {
  if (value === undefined) return
  if (!/^\d+$/.test(value)) throw new IngestError('malformed-request', 'Content-Length is a number of bytes.')
  if (Number(value) > limit.bytesMax) throw limit.tooLarge(Number(value))
}
