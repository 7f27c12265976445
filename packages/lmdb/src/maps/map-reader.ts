import {
  type Digest,
  IngestError,
  isExpired,
  isPendingVoid,
  type Manifest,
  type MapContents,
  type MapId,
  type MapSelection,
  type PendingTotals,
} from '@ingest/core'
import { decodeChunks } from '../chunks/chunk-encoding.ts'
import type { ChunkTables } from '../chunks/chunk-tables.ts'
import type { Rows } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { readFrozenAt } from '../log/event-log.ts'
import { type CachedManifest, noManifestCache } from './manifest-cache.ts'
import { encodeMapName, parseMapName } from './map-encoding.ts'
import type { PendingTables } from './pending-manifests.ts'

/** A map, with its stored row. */
export interface FoundMap {
  row: MapRow
  /** The contents of the row, without a pending manifest that a freeze has made void. */
  contents: MapContents
  frozenAt: number | undefined
  /** The number of chunks that the pending manifest misses, and their digests if known. */
  missing?: { count: number; digests?: readonly Digest[] }
  /** Differs between any two states of the slot. */
  version: string
}

/** The maps as they are stored. Projects are identified by number. */
export interface MapReader {
  find(project: number, id: MapId): FoundMap
  /** Remembers the missing chunks of a pending manifest, if their number has not changed since the map was found. */
  noteMissing(found: FoundMap, digests: readonly Digest[]): void
  /** The selected maps among the next `keysMax` maps; `last` is the last of these if more may follow. */
  list(project: number, selection: MapSelection, keysMax: number): { ids: MapId[]; last?: MapId }
  /** Whether a pending map of the project names a chunk, with at least this size. */
  isDeclared(project: number, digest: Digest, size: number): boolean
  /** The pending maps that miss no chunk, at most `limit`: those that name this chunk first. */
  readyMaps(project: number, digest: Digest, limit: number): MapId[]
  pendingTotals(project: number): PendingTotals
  /**
   * The expired and void ones of the next `limit` pending maps of all projects, and the key at which the next call
   * starts; undefined at the end.
   */
  unneeded(
    touchedBefore: number,
    from: Buffer,
    limit: number,
  ): { maps: { project: number; id: MapId }[]; next?: Buffer }
}

/** A map without the chunks of its manifests; `number` identifies a manifest. */
export interface MapRow {
  complete?: Omit<Manifest, 'chunks'> & { number: number; publishedAt: number }
  pending?: Omit<Manifest, 'chunks'> & { number: number }
}

/** The version of a slot with nothing in it. */
export const versionOfNone = [undefined, undefined].join()

/** Where the name of a map begins in its key. */
export const mapKeyOffset = 4
/** The newest manifests that name a chunk, of which the ready ones come first. */
const referencesSearchedMax = 64

export function createMapReader(
  table: (name: TableName) => Rows,
  chunks: ChunkTables,
  pending: PendingTables,
  cache = noManifestCache,
): MapReader {
  const maps = table('maps')
  const manifests = table('manifests')
  const freezes = table('freezes')

  function chunksOf({ number }: { number: number }): Buffer {
    const bytes = manifests.getBinary(sequenceKey(number))
    if (!bytes) throw new IngestError('store-damaged', 'A map has lost its manifest: restore a backup.')
    return bytes
  }

  function readManifest(row: NonNullable<MapRow['pending']>): CachedManifest {
    return cache.get(row.number, () => manifestOf(row, chunksOf(row)))
  }

  function find(project: number, id: MapId): FoundMap {
    const bytes = maps.getBinary(projectKey(project, encodeMapName(id)))
    const row: MapRow = bytes ? JSON.parse(bytes.toString()) : {}
    const frozenAt = readFrozenAt(freezes, project, id.buildId)
    const contents: MapContents = {}
    const found: Omit<FoundMap, 'version'> = { row, contents, frozenAt }
    const version: unknown[] = [bytes?.toString(), frozenAt]
    if (row.complete) {
      const { publishedAt } = row.complete
      contents.complete = { manifest: readManifest(row.complete).manifest, publishedAt }
    }
    if (row.pending && !isPendingVoid(row, frozenAt)) {
      const { touchedAt, missing } = pending.get(project, row.pending.number)
      const entry = readManifest(row.pending)
      contents.pending = { manifest: entry.manifest, touchedAt }
      version.push(touchedAt, missing)
      const known = entry.missing?.count === missing ? entry.missing : undefined
      found.missing = missing === 0 ? { count: 0, digests: [] } : (known ?? { count: missing })
    }
    return { ...found, version: version.join() }
  }

  /** Whether the pending manifest of a map is not void. */
  function isLive(project: number, id: MapId): boolean {
    const row = maps.getBinary(projectKey(project, encodeMapName(id)))
    return row !== undefined && !isPendingVoid(JSON.parse(row.toString()), readFrozenAt(freezes, project, id.buildId))
  }

  function keysOf(project: number, buildId?: string, after?: MapId) {
    const start = projectKey(project, buildId === undefined ? undefined : encodeMapName({ buildId, placeId: '' }))
    const end = buildId === undefined ? projectKey(project + 1) : projectKey(project, Buffer.from(`${buildId}\u0001`))
    const behind = after && Buffer.concat([projectKey(project, encodeMapName(after)), Buffer.of(0)])
    return maps.getKeys({ start: behind && behind.compare(start) > 0 ? behind : start, end })
  }

  return {
    find,

    noteMissing({ row, contents, missing }, digests) {
      if (!row.pending || !contents.pending || missing?.count !== digests.length) return
      const { manifest } = contents.pending
      cache.get(row.pending.number, () => manifest).missing = { count: digests.length, digests }
    },

    list(project, { placeId, buildId, after, limit }, keysMax) {
      const ids: MapId[] = []
      let last: MapId | undefined
      let left = keysMax
      for (const key of keysOf(project, buildId, after)) {
        const id = parseMapName(key.subarray(mapKeyOffset))
        left--
        if (left === 0) last = id
        if (placeId === undefined || id.placeId === placeId) ids.push(id)
        if (left === 0 || ids.length === limit) break
      }
      return { ids, ...(last && { last }) }
    },

    isDeclared(project, digest, size) {
      for (const reference of chunks.references(project, digest)) {
        const id = reference.size >= size ? pending.idOf(project, reference.number) : undefined
        if (id && isLive(project, id)) return true
      }
      return false
    },

    readyMaps(project, digest, limit) {
      const ready = new Map<number, MapId>()
      for (const number of chunks.newestReferences(project, digest, referencesSearchedMax)) {
        const id = pending.readyId(project, number)
        if (id && isLive(project, id)) ready.set(number, id)
      }
      for (const { number, id } of pending.ready(project)) {
        if (ready.size >= limit) break
        if (isLive(project, id)) ready.set(number, id)
      }
      return [...ready.values()].slice(0, limit)
    },

    pendingTotals(project) {
      const totals = { maps: 0, bytes: 0 }
      for (const { id, bytes } of pending.all(project)) {
        totals.maps++
        if (readFrozenAt(freezes, project, id.buildId) === undefined) totals.bytes += bytes
      }
      return totals
    },

    unneeded(touchedBefore, from, limit) {
      const { entries, next } = pending.page(from, limit)
      const maps = entries.filter((entry) => {
        const { project, id } = entry
        const frozenAt = readFrozenAt(freezes, project, id.buildId)
        return (
          isExpired({ pending: entry, frozenAt }, touchedBefore) || (frozenAt !== undefined && !isLive(project, id))
        )
      })
      return { maps, ...(next && { next }) }
    },
  }
}

function manifestOf({ contentType, size, digest }: NonNullable<MapRow['pending']>, chunkBytes: Buffer): Manifest {
  return { contentType, size, digest, chunks: decodeChunks(chunkBytes) }
}
