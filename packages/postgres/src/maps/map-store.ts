import {
  type BuildEntry,
  type BuildPosition,
  buildsSearchedMax,
  type MapStore,
  type PendingTotals,
  readyMapsMax,
} from '@ingest/core'
import { createKeyedMutex } from '@ingest/core/internal'
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

/** Sort keys in the order of builds: of open builds, and of a position before them. */
const openTime = '9223372036854775806'
const startTime = '9223372036854775807'

function positionOf({ build_id: buildId, frozen_at: frozenAt }: Omit<BuildRow, 'maps'>): BuildPosition {
  return { buildId, ...(frozenAt !== null && { frozenAt }) }
}

function toBuild(row: BuildRow): BuildEntry {
  const { buildId, frozenAt } = positionOf(row)
  return { buildId, ...(frozenAt !== undefined && { frozenAt }), maps: row.maps }
}

interface PutChunkRow {
  outcome: 'stored' | 'existing' | 'undeclared'
  builds: string[]
  places: Buffer[]
}

export function createMapStore({ database, numbers }: MapStoreOptions): MapStore {
  const inTurn = createKeyedMutex()
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

    async builds(projectId, { search = '', after, limit }) {
      const from = after ? [after.frozenAt ?? openTime, after.buildId] : [startTime, '']
      const searched = search === '' ? limit : buildsSearchedMax
      const rows = await query<BuildRow>(projectId, 'builds', ...from, search, limit, searched)
      const builds = rows.map(toBuild)
      if (builds.length === limit) return { builds }
      const [last] = await query<Omit<BuildRow, 'maps'>>(projectId, 'build-at', ...from, searched)
      return { builds, ...(last && { last: positionOf(last) }) }
    },

    updateMap(key, chunks, decide) {
      const { projectId, placeId, buildId } = key
      return inTurn(JSON.stringify([projectId, placeId, buildId]), () =>
        updateMap({ database, numbers }, key, chunks, decide),
      )
    },

    async putChunk(projectId, { digest, bytes, receivedAt }) {
      const values = [encodeDigest(digest), bytes, receivedAt, readyMapsMax]
      const [row] = await query<PutChunkRow>(projectId, 'put-chunk', ...values)
      const { outcome, builds, places } = row ?? undeclared
      const ready = builds.map((buildId, i) => ({ placeId: String(places[i]), buildId }))
      return { outcome, ready }
    },

    async readChunk(projectId, digest) {
      const [row] = await query<{ body: Buffer }>(projectId, 'chunk', encodeDigest(digest))
      return row?.body
    },

    async pendingTotals(projectId) {
      const [row] = await query<PendingTotals>(projectId, 'pending-totals')
      return row ?? { maps: 0, bytes: 0 }
    },
  }
}

const undeclared: PutChunkRow = { outcome: 'undeclared', builds: [], places: [] }
