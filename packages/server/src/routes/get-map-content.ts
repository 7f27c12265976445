import { IngestError, type MapContent, type MapId } from '@ingest/core'
import { parseQuery } from '../http/query.ts'
import type { HttpRequest } from '../http/request.ts'
import { bytes, digest, header, ifNoneMatch, mapId, text } from './operation.ts'
import type { ProjectRoute, RouteContext, RouteResponse } from './route.ts'

/** From `start` (inclusive) to `end` (exclusive). */
export interface ByteRange {
  start: number
  end: number
}

/**
 * Parses the `Range` header of a request for `size` bytes. Undefined for headers that a server may ignore (RFC 9110
 * section 14.2): another unit, several ranges, malformed text.
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

/** A strong entity tag: `"sha256:…"`. */
export function entityTag(digest: string): string {
  return `"${digest}"`
}

/** Whether a list of entity tags contains the tag or is `*`. `If-None-Match` compares weakly, `If-Match` strongly. */
export function listsTag(list: string, tag: string, comparison: 'weak' | 'strong'): boolean {
  if (list.trim() === '*') return true
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((each) => each === tag || (comparison === 'weak' && each === `W/${tag}`))
}

/** For bytes that never change. `private`, because a shared cache must not serve them to another project. */
const immutable = 'private, max-age=31536000, immutable'

export const getMapContent: ProjectRoute = {
  method: 'GET',
  path: '/v1/maps/content',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'getMapContent',
    tag: 'maps',
    summary: 'download a map',
    description:
      'The bytes of the complete map with its `Content-Type`. If an open map is replaced during the download, the connection breaks before `Content-Length`: download again.',
    parameters: [
      ...mapId(true),
      header('Range', text, 'one byte range; multiple or malformed ranges are ignored'),
      header('If-Range', text, 'the entity tag for which `Range` counts'),
      header('If-Match', text, 'entity tags: 412 if none is current'),
      ifNoneMatch,
    ],
    responses: {
      200: {
        description: 'The whole map.',
        content: { '*/*': {} },
        headers: [...bytes.headers, 'Accept-Ranges'],
      },
      206: {
        description: 'The range.',
        content: { '*/*': {} },
        headers: [...bytes.headers, 'Accept-Ranges', 'Content-Range'],
      },
      304: { description: 'The entity tag is current.', ...bytes },
    },
    codes: ['map-not-found', 'precondition-failed', 'range-not-satisfiable', 'map-replaced'],
  },
  handle: readContent,
}

async function readContent({ request, ingest, headers }: RouteContext): Promise<RouteResponse> {
  const map = await ingest.getMapContent(parseMapId(request.query))
  if (!map) throw new IngestError('map-not-found', 'There is no complete map for this place and build.')
  const tag = entityTag(map.digest)
  const caching = cacheHeaders(tag, map.frozen ? immutable : 'private, no-cache')
  const { 'if-match': ifMatch } = request.headers.values
  if (ifMatch !== undefined && !listsTag(ifMatch, tag, 'strong')) {
    throw new IngestError('precondition-failed', 'The map does not have the digest of If-Match.')
  }
  if (isCached(request, tag)) return { status: 304, headers: caching, body: '' }
  const range = requestedRange(request, map, tag)
  if (range === 'unsatisfiable') {
    headers['Content-Range'] = `bytes */${map.size}`
    throw new IngestError('range-not-satisfiable', `The range is outside the ${map.size} bytes of the map.`, {
      limit: map.size,
    })
  }
  const { start, end } = range ?? { start: 0, end: map.size }
  return {
    status: range ? 206 : 200,
    headers: {
      ...caching,
      'Content-Type': map.contentType,
      'Accept-Ranges': 'bytes',
      'Content-Length': String(end - start),
      ...(range && { 'Content-Range': `bytes ${start}-${end - 1}/${map.size}` }),
    },
    body: map.bytes(start, end),
  }
}

export const getChunk: ProjectRoute = {
  method: 'GET',
  path: '/v1/maps/chunks',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'getChunk',
    tag: 'maps',
    summary: 'read one chunk',
    description: 'The bytes of one chunk, which never change.',
    parameters: [digest, ifNoneMatch],
    responses: {
      200: { description: 'The bytes.', content: { 'application/octet-stream': {} }, ...bytes },
      304: { description: 'The entity tag is current.', ...bytes },
    },
    codes: ['chunk-not-found'],
  },
  handle: readChunk,
}

async function readChunk({ request, ingest }: RouteContext): Promise<RouteResponse> {
  const { digest } = parseQuery(request.query, ['digest'])
  if (digest === undefined) throw new IngestError('invalid-argument', 'The query must name a chunk: ?digest=sha256:….')
  const bytes = await ingest.getChunk(digest)
  if (!bytes) throw new IngestError('chunk-not-found', 'The project has no chunk with this digest.')
  const tag = entityTag(digest)
  const headers = cacheHeaders(tag, immutable)
  if (isCached(request, tag)) return { status: 304, headers, body: '' }
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
    // the response depends on the project
    Vary: 'X-Project-Id',
    'X-Content-Type-Options': 'nosniff',
  }
}

function isCached({ headers: { values } }: HttpRequest, tag: string): boolean {
  const list = values['if-none-match']
  return list !== undefined && listsTag(list, tag, 'weak')
}

/** For GET only (RFC 9110 section 14.2), and only if `If-Range` still matches (section 13.1.5). */
function requestedRange(
  { method, headers: { values } }: HttpRequest,
  map: MapContent,
  tag: string,
): ByteRange | 'unsatisfiable' | undefined {
  const { range, 'if-range': ifRange } = values
  if (method !== 'GET' || (ifRange !== undefined && ifRange.trim() !== tag)) return undefined
  return parseByteRange(range, map.size)
}
