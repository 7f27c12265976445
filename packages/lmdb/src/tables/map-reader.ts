import { crc32 } from 'node:zlib'
import {
  type Digest,
  digestsOf,
  IngestError,
  type Manifest,
  type MapContents,
  type MapEntry,
  type MapId,
  type MapSelection,
  type MapSlot,
  type PendingManifest,
} from '@ingest/core'

import type { Rows } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import { readFrozenAt } from '../log/event-log.ts'
import type { ChunkTables } from './chunks.ts'
import { decodeChunks, encodeMapName, parseMapName } from './map-records.ts'
import type { PendingTables } from './pending-manifests.ts'

/** A map as it is stored. */
export interface FoundMap {
  row: MapRow
  contents: MapContents
  frozenAt: number | undefined
  /** Differs between any two states of the slot. */
  version: string
}

/** The maps as they are stored. Projects are identified by number. */
export interface MapReader {
  find(project: number, id: MapId): FoundMap
  /** The slot of the contract. */
  slot(project: number, found: FoundMap, isStored?: (digest: Digest) => boolean): MapSlot
  /** The selected maps among the next `keysMax` maps; `last` is the last of these if more may follow. */
  list(project: number, selection: MapSelection, keysMax: number): { entries: MapEntry[]; last?: MapId }
  /** The pending maps that miss no chunk, at most `limit`: those that name this chunk first. */
  readyMaps(project: number, digest: Digest, limit: number): MapId[]
  /** The expired pending maps of all projects. */
  expired(touchedBefore: number): { project: number; id: MapId }[]
  /** The keys of the maps of a project, or of one of its builds. */
  keysOf(project: number, buildId?: string, after?: MapId): Iterable<Buffer>
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
const namingSearchedMax = 64

export function createMapReader(table: (name: string) => Rows, chunks: ChunkTables, pending: PendingTables): MapReader {
  /** project, build, place → row */
  const maps = table('maps')
  /** number → chunks */
  const manifests = table('manifests')
  const freezes = table('freezes')

  function chunksOf({ number }: { number: number }): Buffer {
    const bytes = manifests.getBinary(sequenceKey(number))
    if (!bytes) throw new IngestError('store-damaged', 'A map has lost its manifest: restore a backup.')
    return bytes
  }

  function find(project: number, id: MapId): FoundMap {
    const bytes = maps.getBinary(projectKey(project, encodeMapName(id)))
    const row: MapRow = bytes ? JSON.parse(bytes.toString()) : {}
    const frozenAt = readFrozenAt(freezes, project, id.buildId)
    const contents: MapContents = {}
    const version: unknown[] = [bytes?.toString(), frozenAt]
    if (row.complete) {
      const chunkBytes = chunksOf(row.complete)
      const { publishedAt } = row.complete
      contents.complete = { manifest: manifestOf(row.complete, chunkBytes), publishedAt }
      version.push(crc32(chunkBytes))
    }
    if (row.pending) {
      const chunkBytes = chunksOf(row.pending)
      const { touchedAt, missing } = pending.get(project, row.pending.number)
      contents.pending = { manifest: manifestOf(row.pending, chunkBytes), touchedAt }
      version.push(crc32(chunkBytes), touchedAt, missing)
    }
    return { row, contents, frozenAt, version: version.join() }
  }

  function slot(
    project: number,
    { row, contents, frozenAt }: FoundMap,
    isStored = (digest: Digest) => chunks.isStored(project, digest),
  ): MapSlot {
    return {
      ...(frozenAt !== undefined && { frozenAt }),
      ...(contents.complete && { complete: contents.complete }),
      ...(contents.pending && {
        pending: {
          ...contents.pending,
          missing: missingOf(project, contents.pending, row.pending?.number as number, isStored),
        },
      }),
    }
  }

  function missingOf(
    project: number,
    { manifest }: PendingManifest,
    number: number,
    isStored: (digest: Digest) => boolean,
  ): Digest[] {
    if (pending.get(project, number).missing === 0) return []
    return digestsOf(manifest).filter((digest) => !isStored(digest))
  }

  function keysOf(project: number, buildId?: string, after?: MapId) {
    const start = projectKey(project, buildId === undefined ? undefined : encodeMapName({ buildId, placeId: '' }))
    const end = buildId === undefined ? projectKey(project + 1) : projectKey(project, Buffer.from(`${buildId}\u0001`))
    const behind = after && Buffer.concat([projectKey(project, encodeMapName(after)), Buffer.of(0)])
    return maps.getKeys({ start: behind && behind.compare(start) > 0 ? behind : start, end })
  }

  return {
    find,
    slot,
    keysOf,

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
      return { entries: ids.map((id) => ({ ...id, slot: slot(project, find(project, id)) })), ...(last && { last }) }
    },

    readyMaps(project, digest, limit) {
      const ready = new Map<number, MapId>()
      for (const number of chunks.newestNaming(project, digest, namingSearchedMax)) {
        const id = pending.readyId(project, number)
        if (id) ready.set(number, id)
      }
      for (const { number, id } of pending.ready(project, limit)) ready.set(number, id)
      return [...ready.values()].slice(0, limit)
    },

    expired(touchedBefore) {
      const isOpen = ({ project, id }: { project: number; id: MapId }) =>
        readFrozenAt(freezes, project, id.buildId) === undefined
      return pending.touchedBefore(touchedBefore).filter(isOpen)
    },
  }
}

function manifestOf({ contentType, size, digest }: NonNullable<MapRow['pending']>, chunkBytes: Buffer): Manifest {
  return { contentType, size, digest, chunks: decodeChunks(chunkBytes) }
}
