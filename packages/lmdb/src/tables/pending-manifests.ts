import type { Digest, MapId } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { chunkKey, manifestsIn } from './chunks.ts'
import { decodePending, encodeMapName, encodePending, type PendingRecord, parseMapName } from './map-records.ts'

/** The pending manifests, the chunks that they miss, and the pending bytes of each project. */
export interface PendingTables {
  get(project: number, number: number): PendingRecord
  /** The pending maps that were last touched before this time. */
  touchedBefore(time: number): { project: number; id: MapId }[]
  /** The first `limit` pending manifests of a project that miss no chunk. */
  ready(project: number, limit: number): { number: number; id: MapId }[]
  /** The map of a pending manifest that misses no chunk. */
  readyId(project: number, number: number): MapId | undefined
  /** Whether any pending manifest records this chunk as missing, even if it is stored by now. */
  isAwaited(project: number, digest: Digest): boolean
  pendingBytes(project: number): number

  // only inside a write transaction
  add(project: number, number: number, id: MapId, touchedAt: number, missing: readonly Digest[]): void
  touch(project: number, number: number, touchedAt: number): void
  /** Records that no chunk is missing. */
  setReady(project: number, number: number, digests: readonly Digest[]): void
  remove(project: number, number: number, digests: readonly Digest[]): void
  /**
   * Records in a bounded number of pending manifests that a chunk is stored, and touches them at `touchedAt`, if given.
   * Any number may miss the same chunk, and a transaction must not take long: repeat it while {@link isAwaited}.
   */
  resolveAwaited(project: number, digest: Digest, touchedAt?: number): void
  addPendingBytes(project: number, bytes: number): void
}

/** The most manifests that one transaction updates for a stored chunk. */
const resolvedMax = 256
const nothing = Buffer.alloc(0)

export function openPendingTables(table: (name: string) => Rows): PendingTables {
  /** project, number → when it was touched, how many chunks are missing, and the name of its map */
  const pendings = table('pending-manifests')
  /** project, number → the name of its map: of each pending manifest that misses no chunk */
  const readies = table('ready-manifests')
  /** project, digest, number → nothing: the manifests that miss a chunk */
  const missingChunks = table('missing-chunks')
  /** project → its pending bytes */
  const totals = table('pending-bytes')

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

  function pendingBytes(project: number): number {
    return totals.getBinary(projectKey(project))?.readDoubleLE() ?? 0
  }

  return {
    get,

    touchedBefore(time) {
      const touched: { project: number; id: MapId }[] = []
      for (const key of pendings.getKeys({})) {
        const { touchedAt, name } = decodePending(pendings.getBinary(key) as Buffer)
        if (touchedAt < time) touched.push({ project: key.readUInt32BE(), id: parseMapName(name) })
      }
      return touched
    },

    ready(project, limit) {
      const keys = readies.getKeys({ start: projectKey(project), end: projectKey(project + 1), limit })
      return Array.from(keys, (key) => ({
        number: readSequence(key),
        id: parseMapName(readies.getBinary(key) as Buffer),
      }))
    },

    readyId(project, number) {
      const name = readies.getBinary(projectKey(project, sequenceKey(number)))
      return name && parseMapName(name)
    },

    isAwaited: (project, digest) => manifestsIn(missingChunks, project, digest, 1).length > 0,
    pendingBytes,

    add(project, number, id, touchedAt, missing) {
      for (const digest of missing) missingChunks.put(chunkKey(project, digest, number), nothing)
      put(project, number, { touchedAt, missing: missing.length, name: encodeMapName(id) })
    },

    touch: (project, number, touchedAt) => put(project, number, { ...get(project, number), touchedAt }),

    setReady(project, number, digests) {
      removeMissing(project, number, digests)
      put(project, number, { ...get(project, number), missing: 0 })
    },

    remove(project, number, digests) {
      if (get(project, number).missing > 0) removeMissing(project, number, digests)
      const key = projectKey(project, sequenceKey(number))
      pendings.remove(key)
      readies.remove(key)
    },

    resolveAwaited(project, digest, touchedAt) {
      for (const number of manifestsIn(missingChunks, project, digest, resolvedMax)) {
        missingChunks.remove(chunkKey(project, digest, number))
        const record = get(project, number)
        put(project, number, {
          ...record,
          touchedAt: touchedAt ?? record.touchedAt,
          missing: record.missing - 1,
        })
      }
    },

    addPendingBytes(project, bytes) {
      if (bytes === 0) return
      const total = Buffer.alloc(8)
      total.writeDoubleLE(pendingBytes(project) + bytes)
      totals.put(projectKey(project), total)
    },
  }
}
