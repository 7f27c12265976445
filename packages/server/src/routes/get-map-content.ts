import { type Ingest, IngestError, type MapContent, type MapId } from '@ingest/core'
import { parseQuery } from '../http/query.ts'
import type { EdgeRequest } from '../http/request.ts'
import type { Reply } from '../http/response.ts'

/** From `start` up to, not including, `end`. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * The one range that a `Range` header asks of `size` bytes; undefined for everything that RFC 9110 section 14.2 lets a
 * server ignore: another unit, several ranges, what is not well-formed.
 */
export function parseByteRange(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined {
  const [, first = '', last = ''] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header?.trim() ?? '') ?? []
  if (first === '' && last === '') return undefined
  if (first === '')
    return Number(last) === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - Number(last)), end: size }
  const start = Number(first)
  if (last !== '' && Number(last) < start) return undefined
  if (start >= size) return 'unsatisfiable'
  return { start, end: last === '' ? size : Math.min(size, Number(last) + 1) }
}

/** The entity tag of bytes with this digest: `"sha256:…"`, a strong one. */
export function entityTag(digest: string): string {
  return `"${digest}"`
}

/** Whether the list of `If-None-Match` or `If-Match` has the tag, or is `*`. The first compares weakly, the second not. */
export function listsTag(list: string, tag: string, comparison: 'weak' | 'strong'): boolean {
  if (list.trim() === '*') return true
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((each) => each === tag || (comparison === 'weak' && each === `W/${tag}`))
}

/** For what never changes. Only the sender may keep it: what it asks for is its project's alone. */
const immutable = 'private, max-age=31536000, immutable'

/**
 * The bytes of a complete map, or a range of them, on the conditions of RFC 9110 section 13.
 *
 * @throws {IngestError} `map-not-found`, `invalid-argument`, `precondition-failed`, `range-not-satisfiable`
 */
export async function answerContent(
  ingest: Ingest,
  request: EdgeRequest,
  refusalHeaders: Record<string, string>,
): Promise<Reply> {
  const map = await ingest.getMapContent(parseMapId(request.query))
  if (!map) throw new IngestError('map-not-found', 'No complete map is there for this place and build.')
  const tag = entityTag(map.digest)
  const headers = cacheHeaders(tag, map.frozen ? immutable : 'private, no-cache')
  const { 'if-match': ifMatch } = request.headers.values
  if (ifMatch !== undefined && !listsTag(ifMatch, tag, 'strong')) {
    throw new IngestError('precondition-failed', 'The map is not the one that If-Match names.')
  }
  if (isKept(request, tag)) return { status: 304, headers, body: '' }
  Object.assign(headers, { 'Content-Type': map.contentType, 'Accept-Ranges': 'bytes' })
  const range = rangeOf(request, map, tag)
  if (range === 'unsatisfiable') {
    refusalHeaders['Content-Range'] = `bytes */${map.size}`
    throw new IngestError('range-not-satisfiable', `The map has ${map.size} bytes, and none of them is in the range.`, {
      limit: map.size,
    })
  }
  if (!range) return { status: 200, headers: { ...headers, 'Content-Length': String(map.size) }, body: map.bytes() }
  const { start, end } = range
  return {
    status: 206,
    headers: {
      ...headers,
      'Content-Length': String(end - start),
      'Content-Range': `bytes ${start}-${end - 1}/${map.size}`,
    },
    body: map.bytes(start, end),
  }
}

/**
 * The bytes of one chunk.
 *
 * @throws {IngestError} `chunk-not-found`, `invalid-argument`
 */
export async function answerChunk(ingest: Ingest, request: EdgeRequest): Promise<Reply> {
  const { digest } = parseQuery(request.query, ['digest'])
  if (digest === undefined) throw new IngestError('invalid-argument', 'The query must name a chunk: ?digest=sha256:….')
  const bytes = await ingest.getChunk(digest)
  if (!bytes) throw new IngestError('chunk-not-found', 'The project has no chunk with this digest.')
  const tag = entityTag(digest)
  const headers = cacheHeaders(tag, immutable)
  if (isKept(request, tag)) return { status: 304, headers, body: '' }
  return { status: 200, headers: { ...headers, 'Content-Type': 'application/octet-stream' }, body: bytes }
}

function parseMapId(query: string): MapId {
  const { placeId, buildId } = parseQuery(query, ['placeId', 'buildId'])
  if (placeId !== undefined && buildId !== undefined) return { placeId, buildId }
  throw new IngestError('invalid-argument', 'The query must name a map: ?placeId=…&buildId=….')
}

function cacheHeaders(tag: string, caching: string): Record<string, string> {
  return {
    ETag: tag,
    'Cache-Control': caching,
    // the same URL is something else for another project
    Vary: 'X-Project-Id',
    'X-Content-Type-Options': 'nosniff',
  }
}

function isKept({ headers: { values } }: EdgeRequest, tag: string): boolean {
  const list = values['if-none-match']
  return list !== undefined && listsTag(list, tag, 'weak')
}

/** RFC 9110 section 14.2: for GET only; section 13.1.5: only if the bytes are still those that `If-Range` names. */
function rangeOf(
  { method, headers: { values } }: EdgeRequest,
  map: MapContent,
  tag: string,
): ByteRange | 'unsatisfiable' | undefined {
  const { range, 'if-range': ifRange } = values
  if (method !== 'GET' || (ifRange !== undefined && ifRange.trim() !== tag)) return undefined
  return parseByteRange(range, map.size)
}
