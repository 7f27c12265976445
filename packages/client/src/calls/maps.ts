import {
  type ChunkUpload,
  type Digest,
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
import {
  parseCompleted,
  parseMapPage,
  parseMapStatus,
  parsePublishedMap,
  parsePutChunksResult,
} from '../http/parse-response.ts'
import type { Api, CallOptions } from './api.ts'
import { readContent } from './read-content.ts'

/** The most chunks of one request. */
export const groupChunksMax = 64
/** The most bytes of the chunks of one request: in base64 and with their digests, they fit into 4 MiB. */
export const groupBytesMax = 3_000_000

/** Chunks that go in one request, and the place of the first of them among all. */
export interface ChunkGroup {
  first: number
  group: ChunkUpload[]
}

/** Chunks in their order, cut into requests. */
export function groupChunks(chunks: readonly ChunkUpload[]): ChunkGroup[] {
  const groups: ChunkGroup[] = []
  let current: ChunkGroup | undefined
  let bytes = 0
  for (const [index, chunk] of chunks.entries()) {
    bytes += chunk.bytes.length
    if (!current || current.group.length === groupChunksMax || bytes > groupBytesMax) {
      current = { first: index, group: [] }
      groups.push(current)
      bytes = chunk.bytes.length
    }
    current.group.push(chunk)
  }
  return groups
}

/** What a client does with maps; the project is known. */
export interface MapCalls {
  publishMap(publication: Publication, options?: PublishOptions & CallOptions): Promise<PublishedMap>
  putChunks(chunks: readonly ChunkUpload[], options?: CallOptions): Promise<PutChunksResult>
  putChunk(digest: Digest, bytes: Uint8Array, options?: CallOptions): Promise<PutChunkResult>
  getMap(id: MapId, options?: CallOptions): Promise<MapStatus | undefined>
  listMaps(options?: MapPageOptions & CallOptions): Promise<MapPage>
  getMapContent(id: MapId, options?: CallOptions): Promise<MapContent | undefined>
  getChunk(digest: Digest, options?: CallOptions): Promise<Uint8Array | undefined>
}

const json = { 'content-type': 'application/json' }
const octets = { 'content-type': 'application/octet-stream' }

export function mapCalls(api: Api): MapCalls {
  async function findMap(id: MapId, options?: CallOptions): Promise<MapStatus | undefined> {
    const query = queryOf(id)
    const found = await orMissing(
      'map-not-found',
      api.call({ method: 'GET', path: '/v1/maps', query, expect: [200] }, options),
    )
    return found && parseMapStatus(found.body)
  }

  return {
    getMap: findMap,

    async publishMap(publication, { ifNoneMatch, ifMatch, dryRun, ...options } = {}) {
      if (ifMatch !== undefined) checkDigest(ifMatch)
      const { body } = await api.call(
        {
          method: 'PUT',
          path: '/v1/maps',
          query: { dryRun: dryRun ? true : undefined },
          headers: {
            ...json,
            ...(ifNoneMatch && { 'if-none-match': '*' }),
            ...(ifMatch !== undefined && { 'if-match': `"${ifMatch}"` }),
          },
          body: serialize(publication),
          expect: [200, 201, 202],
        },
        options,
      )
      return parsePublishedMap(body)
    },

    async putChunks(chunks, options) {
      const total: PutChunksResult = { stored: 0, existing: 0, rejected: [], completed: [] }
      for (const { first, group } of groupChunks(chunks)) {
        const parts = group.map(({ digest, bytes }) => ({ digest, data: base64(bytes) }))
        const body = Buffer.from(JSON.stringify({ chunks: parts }))
        const answer = await api.call(
          { method: 'PUT', path: '/v1/maps/chunks', headers: json, body, expect: [200] },
          options,
        )
        const result = parsePutChunksResult(answer.body)
        total.stored += result.stored
        total.existing += result.existing
        total.rejected.push(...result.rejected.map((entry) => ({ ...entry, index: first + entry.index })))
        total.completed.push(...result.completed)
      }
      return total
    },

    async putChunk(digest, bytes, options) {
      checkDigest(digest)
      const { status, body } = await api.call(
        {
          method: 'PUT',
          path: '/v1/maps/chunks',
          query: { digest },
          headers: octets,
          body: bytes,
          expect: [200, 201],
        },
        options,
      )
      return { outcome: status === 201 ? 'stored' : 'existing', completed: parseCompleted(body).completed }
    },

    async listMaps({ placeId, buildId, cursor, limit, ...options } = {}) {
      const query = { placeId, buildId, cursor, limit }
      // both together ask for one map, and not for a list of it
      if (placeId !== undefined && buildId !== undefined) return pageOfOne(await findMap({ placeId, buildId }, options))
      return parseMapPage((await api.call({ method: 'GET', path: '/v1/maps', query, expect: [200] }, options)).body)
    },

    async getMapContent(id, options) {
      const found = await findMap(id, options)
      if (found?.state !== 'complete') return undefined
      const { placeId, buildId, digest, size, contentType, frozen } = found
      return {
        placeId,
        buildId,
        digest,
        size,
        contentType,
        frozen,
        bytes: (start = 0, end = size) => readContent(api, { placeId, buildId, digest, size, start, end }, options),
      }
    },

    async getChunk(digest, options) {
      checkDigest(digest)
      const request = { method: 'GET', path: '/v1/maps/chunks', query: { digest }, expect: [200] } as const
      return (await orMissing('chunk-not-found', api.call(request, options)))?.body
    },
  }
}

/** Undefined in place of this one refusal; that of a wrong address stays one. */
async function orMissing<T>(code: 'map-not-found' | 'chunk-not-found', answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof IngestError && error.status === 404 && error.code === code) return undefined
    throw error
  }
}

function queryOf({ placeId, buildId }: MapId): Record<string, string> {
  // without one of them, it would be another question
  if (isText(placeId) && isText(buildId)) return { placeId, buildId }
  throw new IngestError('invalid-argument', 'A map is asked for by its placeId and its buildId.')
}

/** An integer means its decimal string. */
function isText(value: unknown): boolean {
  return typeof value === 'string' || Number.isSafeInteger(value)
}

function pageOfOne(map: MapStatus | undefined): MapPage {
  return { maps: map ? [map] : [], next: null }
}

function checkDigest(digest: Digest): void {
  if (!isDigest(digest)) throw new IngestError('invalid-argument', 'A digest is sha256: and 64 lower-case hex digits.')
}

function serialize(publication: Publication): Uint8Array {
  try {
    return Buffer.from(JSON.stringify(publication))
  } catch (cause) {
    const message = `The publication cannot be written as JSON: ${(cause as Error).message}`
    throw new IngestError('invalid-publication', message, { cause })
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
}
