import {
  type ChunkUpload,
  type Digest,
  digestOf,
  IngestError,
  type MapContent,
  type MapId,
  type MapPage,
  type MapPageOptions,
  type MapStatus,
  type Publication,
  type PublishedMap,
  type PublishOptions,
  type PutChunkResult,
  type PutChunksResult,
} from '@ingest/core'
import { isDigest } from '@ingest/core/internal'
import * as wire from '@ingest/core/wire'
import type { ApiRequest, HttpResponse } from '../http/connection.ts'
import { unexpectedResponse } from '../http/error-from-response.ts'
import type { CallOptions } from '../http/retry.ts'
import { type Api, undefinedOn } from './api.ts'

/** Maximum bytes of the chunks in one request: in base64 and with their digests, they fit into 4 MiB. */
export const groupBytesMax = 3_000_000

/** The chunks of one request, and the input index of the first one. */
export interface ChunkGroup {
  first: number
  group: ChunkUpload[]
}

/** Splits chunks into requests, in order. */
export function groupChunks(chunks: readonly ChunkUpload[]): ChunkGroup[] {
  const groups: ChunkGroup[] = []
  let current: ChunkGroup | undefined
  let bytes = 0
  for (const [index, chunk] of chunks.entries()) {
    bytes += chunk.bytes.length
    if (!current || current.group.length === wire.chunksMax || bytes > groupBytesMax) {
      current = { first: index, group: [] }
      groups.push(current)
      bytes = chunk.bytes.length
    }
    current.group.push(chunk)
  }
  return groups
}

export interface MapCalls {
  publishMap(publication: Publication, options?: PublishOptions & CallOptions): Promise<PublishedMap>
  putChunks(chunks: readonly ChunkUpload[], options?: CallOptions): Promise<PutChunksResult>
  putChunk(digest: Digest, bytes: Uint8Array, options?: CallOptions): Promise<PutChunkResult>
  getMap(id: MapId, options?: CallOptions): Promise<MapStatus | undefined>
  listMaps(options?: MapPageOptions & CallOptions): Promise<MapPage>
  /** The signal also ends the download of the bytes. */
  getMapContent(id: MapId, options?: CallOptions): Promise<MapContent | undefined>
  /** @throws {IngestError} `digest-mismatch` for received bytes that do not match the digest */
  getChunk(digest: Digest, options?: CallOptions): Promise<Uint8Array | undefined>
}

export function mapCalls(api: Api): MapCalls {
  async function getMap(id: MapId, options?: CallOptions): Promise<MapStatus | undefined> {
    const query = mapQuery(id)
    return undefinedOn('map-not-found', api.json<MapStatus>(wire.MapStatus, { path: '/v1/maps', query }, options))
  }

  return {
    getMap,
    publishMap: (publication, options) => publishMap(api, publication, options),
    putChunks: (chunks, options) => putChunks(api, chunks, options),

    async putChunk(digest, bytes, options) {
      const query = { digest: checkDigest(digest) }
      const headers = { 'content-type': 'application/octet-stream' }
      const request = { ...putChunksRequest, query, headers, body: bytes, expect: [200, 201] }
      return api.json(wire.PutChunkResult, request, options)
    },

    async listMaps({ placeId, buildId, cursor, limit, ...options } = {}) {
      // for both, the server returns a single map instead of a list
      if (placeId !== undefined && buildId !== undefined) {
        const map = await getMap({ placeId, buildId }, options)
        return { maps: map ? [map] : [], next: null }
      }
      return api.json(wire.MapPage, { path: '/v1/maps', query: { placeId, buildId, cursor, limit } }, options)
    },

    async getMapContent(id, options) {
      const map = await getMap(id, options)
      if (map?.state !== 'complete') return undefined
      const { placeId, buildId, digest, size, contentType, frozen } = map
      return {
        ...{ placeId, buildId, digest, size, contentType, frozen },
        bytes: (start = 0, end = size) => readContent(api, { map, start, end }, options),
      }
    },

    async getChunk(digest, options) {
      const request = { path: '/v1/maps/chunks', query: { digest: checkDigest(digest) } }
      const bytes = await undefinedOn('chunk-not-found', api.bytes(request, options))
      if (bytes === undefined) return undefined
      const actual = digestOf(bytes)
      if (actual === digest) return bytes
      throw new IngestError(
        'digest-mismatch',
        `The received chunk does not match its digest: expected ${digest}, but received ${bytes.length} bytes of ${actual}.`,
      )
    },
  }
}

const json = { 'content-type': 'application/json' }

async function publishMap(
  api: Api,
  publication: Publication,
  { ifNoneMatch, ifMatch, dryRun, ...options }: PublishOptions & CallOptions = {},
): Promise<PublishedMap> {
  const request: ApiRequest = {
    method: 'PUT',
    path: '/v1/maps',
    query: { dryRun: dryRun ? true : undefined },
    headers: {
      ...json,
      ...(ifNoneMatch && { 'if-none-match': '*' }),
      ...(ifMatch !== undefined && { 'if-match': `"${checkDigest(ifMatch)}"` }),
    },
    body: encodePublication(publication),
    expect: [200, 201, 202],
  }
  return api.json(wire.PublishedMap, request, options)
}

const putChunksRequest = { method: 'PUT', path: '/v1/maps/chunks' } as const

async function putChunks(api: Api, chunks: readonly ChunkUpload[], options?: CallOptions): Promise<PutChunksResult> {
  const total: PutChunksResult = { stored: 0, existing: 0, rejected: [], completed: [] }
  for (const { first, group } of groupChunks(chunks)) {
    const encoded = group.map(({ digest, bytes }) => ({ digest, data: base64(bytes) }))
    const body = Buffer.from(JSON.stringify({ chunks: encoded }))
    const request = { ...putChunksRequest, headers: json, body }
    const result = await api.json<PutChunksResult>(wire.PutChunksResult, request, options)
    total.stored += result.stored
    total.existing += result.existing
    total.rejected.push(...result.rejected.map((entry) => ({ ...entry, index: first + entry.index })))
    total.completed.push(...result.completed)
  }
  return total
}

function mapQuery({ placeId, buildId }: MapId): Record<string, string> {
  // with only one of them, the server would return a list
  if (isMapIdPart(placeId) && isMapIdPart(buildId)) return { placeId, buildId }
  throw new IngestError('invalid-argument', 'The id of a map needs a placeId and a buildId.')
}

/** Accepts an integer, which the query turns into its decimal string. */
function isMapIdPart(value: unknown): boolean {
  return typeof value === 'string' || Number.isSafeInteger(value)
}

function checkDigest(digest: Digest): Digest {
  if (isDigest(digest)) return digest
  throw new IngestError('invalid-argument', 'A digest must be sha256: and 64 lower-case hex digits.')
}

function encodePublication(publication: Publication): Uint8Array {
  try {
    return Buffer.from(JSON.stringify(publication))
  } catch (cause) {
    const message = `The publication cannot be serialized as JSON: ${(cause as Error).message}`
    throw new IngestError('invalid-publication', message, { cause })
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
}

/** A range of a complete map, in bytes. */
interface ContentRange {
  map: MapStatus
  start: number
  /** Exclusive. */
  end: number
}

/**
 * Streams a range of a map. If the connection breaks, it continues at the first missing byte. The ETag of a map is its
 * digest, so a replacement in between is detected.
 *
 * @throws {IngestError} `invalid-argument` for a range outside of the map, `map-replaced`
 */
async function* readContent(
  api: Api,
  { map: { placeId, buildId, digest, size }, start, end }: ContentRange,
  options?: CallOptions,
): AsyncGenerator<Uint8Array, void> {
  if (!(Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && start <= end && end <= size)) {
    throw new IngestError('invalid-argument', `The range must be between 0 and ${size}, the size of the map.`)
  }
  const etag = `"${digest}"`
  let at = start
  if (start === end) return
  try {
    yield* api.stream(request, rest, options)
  } catch (error) {
    if (error instanceof IngestError && error.status === 412) throw replaced()
    throw error
  }

  function request(): ApiRequest {
    const isWhole = at === 0 && end === size
    return {
      path: '/v1/maps/content',
      query: { placeId, buildId },
      headers: { 'if-match': etag, ...(!isWhole && { range: `bytes=${at}-${end - 1}` }) },
      expect: [200, 206],
    }
  }

  async function* rest({ status, headers, body, discard }: HttpResponse): AsyncGenerator<Uint8Array, void> {
    try {
      if (headers.etag !== etag) throw replaced()
      // a proxy may ignore the range and send the whole map
      let position = status === 206 ? rangeStart(headers['content-range']) : 0
      if (position > at) throw unexpectedResponse('it is another range of the map')
      for await (const chunk of body) {
        const wanted = chunk.subarray(Math.max(0, at - position), end - position)
        position += chunk.length
        if (wanted.length > 0) {
          at += wanted.length
          yield wanted
        }
        if (at === end) return
      }
      throw new IngestError('connection-failed', 'The response ended before the end of the map.')
    } finally {
      discard()
    }
  }
}

/** Parses the start of `bytes 5-9/10` (RFC 9110 section 14.4). */
function rangeStart(contentRange = ''): number {
  const [, first] = /^bytes (\d+)-/.exec(contentRange) ?? []
  if (first === undefined) throw unexpectedResponse('it does not say which range of the map it holds')
  return Number(first)
}

function replaced(): IngestError {
  return new IngestError('map-replaced', 'The map was replaced during the download: read it again.')
}
