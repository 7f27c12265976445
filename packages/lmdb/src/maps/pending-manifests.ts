import { type Digest, declaredBytes, type MapId, type PendingManifest } from '@ingest/core'
import { chunkKey, manifestsIn } from '../chunks/chunk-tables.ts'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { decodePending, encodeMapName, encodePending, type PendingRow, parseMapName } from './map-encoding.ts'

/** The pending manifests, and the chunks that they miss. */
export interface PendingTables {
  get(project: number, number: number): PendingRow
  /** The pending manifests of a project. */
  all(project: number): Iterable<PendingEntry>
  /**
   * The next `limit` pending manifests of all projects, and the key at which the next call starts; undefined at the
   * end.
   */
  page(from: Buffer, limit: number): { entries: PendingEntry[]; next?: Buffer }
  /** The map of a pending manifest; undefined for another manifest. */
  idOf(project: number, number: number): MapId | undefined
  /** The pending manifests of a project that miss no chunk. */
  ready(project: number): Iterable<{ number: number; id: MapId }>
  /** The map of a pending manifest that misses no chunk. */
  readyId(project: number, number: number): MapId | undefined
  /** Whether any pending manifest records this chunk as missing, even if it is stored by now. */
  isAwaited(project: number, digest: Digest): boolean

  // only inside a write transaction
  add(project: number, number: number, id: MapId, pending: PendingManifest, missing: readonly Digest[]): void
  touch(project: number, number: number, touchedAt: number): void
  /** Records that no chunk is missing. */
  setReady(project: number, number: number, digests: readonly Digest[]): void
  /** Removes a pending manifest, but not from those that miss a chunk: see {@link removeMissing}. */
  remove(project: number, number: number): void
  removeMissing(project: number, number: number, digests: readonly Digest[]): void
  /**
   * Records in a bounded number of pending manifests that a chunk is stored, and touches them at `touchedAt`, if given.
   * Any number may miss the same chunk, and a transaction must not take long: repeat it while {@link isAwaited}.
   */
  resolveAwaited(project: number, digest: Digest, touchedAt?: number): void
}

export interface PendingEntry extends Pick<PendingRow, 'touchedAt' | 'bytes'> {
  project: number
  id: MapId
}

/** The most manifests that one transaction updates for a stored chunk. */
const resolvedMax = 256
const nothing = Buffer.alloc(0)

export function openPendingTables(table: (name: TableName) => Rows): PendingTables {
  const pendings = table('pending-manifests')
  const readies = table('ready-manifests')
  const missingChunks = table('missing-chunks')

  function get(project: number, number: number): PendingRow {
    return decodePending(pendings.getBinary(projectKey(project, sequenceKey(number))) as Buffer)
  }

  function put(project: number, number: number, record: PendingRow): void {
    const key = projectKey(project, sequenceKey(number))
    pendings.put(key, encodePending(record))
    if (record.missing === 0) readies.put(key, record.name)
  }

  function removeMissing(project: number, number: number, digests: readonly Digest[]): void {
    for (const digest of digests) missingChunks.remove(chunkKey(project, digest, number))
  }

  function entryAt(key: Buffer): PendingEntry {
    const { touchedAt, bytes, name } = decodePending(pendings.getBinary(key) as Buffer)
    return { project: key.readUInt32BE(), id: parseMapName(name), touchedAt, bytes }
  }

  return {
    get,

    *all(project) {
      for (const key of pendings.getKeys({ start: projectKey(project), end: projectKey(project + 1) }))
        yield entryAt(key)
    },

    page(from, limit) {
      const keys = Array.from(pendings.getKeys({ start: from, limit }), (key) => Buffer.from(key))
      const last = keys.at(-1)
      const next = last && keys.length === limit && { next: Buffer.concat([last, Buffer.of(0)]) }
      return { entries: keys.map(entryAt), ...next }
    },

    idOf(project, number) {
      const bytes = pendings.getBinary(projectKey(project, sequenceKey(number)))
      return bytes && parseMapName(decodePending(bytes).name)
    },

    *ready(project) {
      for (const key of readies.getKeys({ start: projectKey(project), end: projectKey(project + 1) })) {
        yield { number: readSequence(key), id: parseMapName(readies.getBinary(key) as Buffer) }
      }
    },

    readyId(project, number) {
      const name = readies.getBinary(projectKey(project, sequenceKey(number)))
      return name && parseMapName(name)
    },

    isAwaited: (project, digest) => manifestsIn(missingChunks, project, digest, 1).length > 0,

    add(project, number, id, { manifest, touchedAt }, missing) {
      for (const digest of missing) missingChunks.put(chunkKey(project, digest, number), nothing)
      const bytes = declaredBytes(manifest)
      put(project, number, { touchedAt, missing: missing.length, bytes, name: encodeMapName(id) })
    },

    touch: (project, number, touchedAt) => put(project, number, { ...get(project, number), touchedAt }),

    setReady(project, number, digests) {
      removeMissing(project, number, digests)
      put(project, number, { ...get(project, number), missing: 0 })
    },

    removeMissing,

    remove(project, number) {
      const key = projectKey(project, sequenceKey(number))
      pendings.remove(key)
      readies.remove(key)
    },

    resolveAwaited(project, digest, touchedAt) {
      for (const number of manifestsIn(missingChunks, project, digest, resolvedMax)) {
        missingChunks.remove(chunkKey(project, digest, number))
        // the manifest is no longer pending
        if (!pendings.doesExist(projectKey(project, sequenceKey(number)))) continue
        const record = get(project, number)
        put(project, number, {
          ...record,
          touchedAt: touchedAt ?? record.touchedAt,
          missing: record.missing - 1,
        })
      }
    },
  }
}
