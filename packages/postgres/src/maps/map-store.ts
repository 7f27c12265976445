import { checkPendingBytes, type MapStore, readyMapsMax } from '@ingest/core'
import { createTurns } from '@ingest/core/internal'
import type { Database } from '../connection/database.ts'
import { createProjectQuery, type ProjectNumbers } from '../projects/project-numbers.ts'
import { encodeDigest, type SlotRow, toSlot } from './slot-row.ts'
import { readMap, updateMap } from './update-map.ts'

export interface MapStoreOptions {
  database: Database
  numbers: ProjectNumbers
}

interface EntryRow extends SlotRow {
  build_id: string
  place_id: Buffer
}

interface BuildRow {
  build_id: string
  frozen_at: number | null
  maps: number
}

interface PutChunkRow {
  outcome: 'stored' | 'existing' | 'undeclared' | 'refused'
  bytes_before: number
  bytes_after: number
  builds: string[]
  places: Buffer[]
}

export function createMapStore({ database, numbers }: MapStoreOptions): MapStore {
  const inTurn = createTurns()
  const query = createProjectQuery(database, numbers)

  return {
    async map({ projectId, ...id }) {
      return toSlot(await readMap(database.query, await numbers.find(projectId), id))
    },

    async maps(projectId, { buildId, placeId, after, limit }) {
      const place = placeId === undefined ? undefined : Buffer.from(placeId)
      const afterPlace = after && Buffer.from(after.placeId)
      const rows = await query<EntryRow>(projectId, 'maps', buildId, place, after?.buildId, afterPlace, limit)
      return rows.map((row) => ({ placeId: row.place_id.toString(), buildId: row.build_id, slot: toSlot(row) }))
    },

    async builds(projectId, { after = '', limit }) {
      const rows = await query<BuildRow>(projectId, 'builds', after, limit)
      return rows.map(({ build_id: buildId, frozen_at: frozenAt, maps }) => ({
        buildId,
        ...(frozenAt !== null && { frozenAt }),
        maps,
      }))
    },

    updateMap(key, chunks, decide) {
      const { projectId, placeId, buildId } = key
      return inTurn(JSON.stringify([projectId, placeId, buildId]), () =>
        updateMap({ database, numbers }, key, chunks, decide),
      )
    },

    async putChunk(projectId, { digest, bytes, receivedAt, pendingBytesMax }) {
      const values = [encodeDigest(digest), bytes, receivedAt, pendingBytesMax, readyMapsMax]
      const [row] = await query<PutChunkRow>(projectId, 'put-chunk', ...values)
      const { outcome, bytes_before: before, bytes_after: after, builds, places } = row ?? undeclared
      if (outcome === 'refused') {
        checkPendingBytes(before, after, pendingBytesMax)
        throw new Error('put_chunk_1 refused a chunk within the limit')
      }
      const ready = builds.map((buildId, i) => ({ placeId: String(places[i]), buildId }))
      return { outcome, ready }
    },

    async readChunk(projectId, digest) {
      const [row] = await query<{ body: Buffer }>(projectId, 'chunk', encodeDigest(digest))
      return row?.body
    },

    async expirePending(touchedBefore) {
      const projects = await database.query<{ project: number }>('projects-with-expired-maps', [touchedBefore])
      for (const { project } of projects) {
        for (let isDone = false; !isDone; ) {
          const [row] = await database.query<{ expired: number }>('expire-pending', [project, touchedBefore])
          isDone = row?.expired === 0
        }
      }
    },

    async pendingBytes(projectId) {
      const [row] = await query<{ pending_bytes: number }>(projectId, 'pending-bytes')
      return row?.pending_bytes ?? 0
    },
  }
}

const undeclared: PutChunkRow = { outcome: 'undeclared', bytes_before: 0, bytes_after: 0, builds: [], places: [] }
