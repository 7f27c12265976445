import type { Digest, MapId } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { chunkKey, manifestsIn } from './chunks.ts'
import { decodePending, encodeMapName, encodePending, type PendingRecord, parseMapName } from './map-records.ts'

/** The pending manifests, the chunks that they miss, and the pending bytes of each project. */
export interface PendingTables {
  get(project: number, number: number): PendingRecord
  /** Those of the next `limit` pending maps that were last touched before this time, and where to go on. */
  touchedBefore(time: number, from: Buffer, limit: number): { maps: { project: number; id: MapId }[]; next?: Buffer }
  /** The map of a pending manifest; undefined for another manifest. */
  idOf(project: number, number: number): MapId | undefined
  /** The pending manifests of a project that miss no chunk. */
  ready(project: number): Iterable<{ number: number; id: MapId }>
  /** The map of a pending manifest that misses no chunk. */
  readyId(project: number, number: number): MapId | undefined
  /** Whether any pending manifest records this chunk as missing, even if it is stored by now. */
  isAwaited(project: number, digest: Digest): boolean
  pendingBytes(project: number): number
  /** Builds that froze with pending maps, of which some may be void: the first `limit`. */
  frozenWithPending(limit: number): { project: number; buildId: string }[]

  // only inside a write transaction
  add(project: number, number: number, id: MapId, touchedAt: number, missing: readonly Digest[]): void
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
  /** Adds to the pending bytes of a project, for an open build. */
  addPendingBytes(project: number, buildId: string, bytes: number): void
  /** Takes a build out of the pending bytes, whatever is pending in it. */
  freeze(project: number, buildId: string): void
  /** Removes a build from {@link frozenWithPending}. */
  forgetFrozen(project: number, buildId: string): void
}

/** The most manifests that one transaction updates for a stored chunk. */
const resolvedMax = 256
const nothing = Buffer.alloc(0)

export function openPendingTables(table: (name: TableName) => Rows): PendingTables {
  const pendings = table('pending-manifests')
  const readies = table('ready-manifests')
  const missingChunks = table('missing-chunks')
  const totals = table('pending-bytes')
  const frozen = table('frozen-with-pending')

  function get(project: number, number: number): PendingRecord {
    return decodePending(pendings.getBinary(projectKey(project, sequenceKey(number))) as Buffer)
  }

  function put(project: number, number: number, record: PendingRecord): void {
    const key = projectKey(project, sequenceKey(number))
    pendings.put(key, encodePending(record))
    if (record.missing === 0) readies.put(key, record.name)
  }

  function removeMissing(project: number, number: number, digests: readonly Digest[]): void {
    for (const digest of digests) missingChunks.remove(chunkKey(project, digest, number))
  }

  function bytesAt(key: Buffer): number {
    return totals.getBinary(key)?.readDoubleLE() ?? 0
  }

  function addBytes(key: Buffer, bytes: number): void {
    const total = Buffer.alloc(8)
    total.writeDoubleLE(bytesAt(key) + bytes)
    if (total.readDoubleLE() === 0) totals.remove(key)
    else totals.put(key, total)
  }

  const buildKey = (project: number, buildId: string) => projectKey(project, Buffer.from(buildId))

  return {
    get,

    touchedBefore(time, from, limit) {
      const maps: { project: number; id: MapId }[] = []
      const keys = Array.from(pendings.getKeys({ start: from, limit }), (key) => Buffer.from(key))
      for (const key of keys) {
        const { touchedAt, name } = decodePending(pendings.getBinary(key) as Buffer)
        if (touchedAt < time) maps.push({ project: key.readUInt32BE(), id: parseMapName(name) })
      }
      const last = keys.at(-1)
      return { maps, ...(last && keys.length === limit && { next: Buffer.concat([last, Buffer.of(0)]) }) }
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
    pendingBytes: (project) => bytesAt(projectKey(project)),

    frozenWithPending: (limit) =>
      Array.from(frozen.getKeys({ limit }), (key) => ({
        project: key.readUInt32BE(),
        buildId: key.toString('utf8', projectKey(0).length),
      })),

    add(project, number, id, touchedAt, missing) {
      for (const digest of missing) missingChunks.put(chunkKey(project, digest, number), nothing)
      put(project, number, { touchedAt, missing: missing.length, name: encodeMapName(id) })
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
        // of a manifest that is not pending any more
        if (!pendings.doesExist(projectKey(project, sequenceKey(number)))) continue
        const record = get(project, number)
        put(project, number, {
          ...record,
          touchedAt: touchedAt ?? record.touchedAt,
          missing: record.missing - 1,
        })
      }
    },

    addPendingBytes(project, buildId, bytes) {
      if (bytes === 0) return
      addBytes(projectKey(project), bytes)
      addBytes(buildKey(project, buildId), bytes)
    },

    freeze(project, buildId) {
      const key = buildKey(project, buildId)
      const bytes = bytesAt(key)
      if (bytes === 0) return
      addBytes(projectKey(project), -bytes)
      totals.remove(key)
      frozen.put(key, nothing)
    },

    forgetFrozen: (project, buildId) => void frozen.remove(buildKey(project, buildId)),
  }
}
