import { IngestError } from './error.ts'
import type { Project } from './key.ts'
import { sliceEvents } from './slice-events.ts'
import type { AppendBatch, Store, StoredEvent } from './store.ts'

interface Kept {
  events: StoredEvent[]
  byId: Map<string, StoredEvent>
  frozenAt: Map<string, number>
  batches: number
  bytes: number
}

/**
 * A store that forgets everything when it is closed, for tests and trials: the shortest thing that keeps the contract.
 * Nothing here waits between a look and a write, so every operation is atomic.
 */
export function openMemoryStore(): Store {
  const kept = new Map<string, Kept>()
  const projects = new Map<string, Project>()
  let open = true

  function of(projectId: string): Kept {
    checkOpen()
    let project = kept.get(projectId)
    if (!project) {
      project = { events: [], byId: new Map(), frozenAt: new Map(), batches: 0, bytes: 0 }
      kept.set(projectId, project)
    }
    return project
  }

  function checkOpen(): void {
    if (!open) throw new IngestError('store-closed', 'The store is closed.')
  }

  return {
    async append(projectId, batch) {
      return append(of(projectId), batch)
    },

    async known(projectId, eventIds) {
      const { byId } = of(projectId)
      return eventIds.map((eventId) => byId.has(eventId))
    },

    async find(projectId, eventId) {
      return of(projectId).byId.get(eventId)
    },

    async *read(projectId, { after, limit = Number.POSITIVE_INFINITY } = {}) {
      const { events } = of(projectId)
      const first = after === undefined ? 0 : positionAfter(after)
      for (let i = first; i < events.length && i - first < limit; i++) {
        checkOpen()
        yield events[i] as StoredEvent
      }
    },

    async map({ projectId, buildId }) {
      const frozenAt = of(projectId).frozenAt.get(buildId)
      return frozenAt === undefined ? {} : { frozenAt }
    },

    async maps() {
      throw new Error('not yet')
    },
    async updateMap() {
      throw new Error('not yet')
    },
    async putChunk() {
      throw new Error('not yet')
    },
    async chunk() {
      throw new Error('not yet')
    },
    async presentChunks() {
      throw new Error('not yet')
    },
    async readyMaps() {
      throw new Error('not yet')
    },
    async dropIdleMaps() {
      throw new Error('not yet')
    },

    async totals(projectId) {
      const { events, batches, bytes } = of(projectId)
      return { events: events.length, batches, bytes }
    },

    async project(projectId) {
      checkOpen()
      return projects.get(projectId)
    },

    async updateProject(projectId, decide) {
      checkOpen()
      const { project, result } = decide(projects.get(projectId))
      if (project) projects.set(projectId, project)
      return result
    },

    async check() {
      checkOpen()
    },

    async close() {
      open = false
    },
  }
}

function append(kept: Kept, { body, events, receivedAt }: AppendBatch) {
  const slices = sliceEvents(body)
  let conflicts = 0
  const stored = events.map(({ index, eventId, buildId }) => {
    const { start, end } = slices[index] as { start: number; end: number }
    const bytes = Buffer.from(body.subarray(start, end))
    const existing = kept.byId.get(eventId)
    if (existing) {
      if (!bytes.equals(existing.bytes)) conflicts++
      return false
    }
    const event = { cursor: String(kept.events.length), receivedAt, bytes }
    kept.events.push(event)
    kept.byId.set(eventId, event)
    if (buildId !== undefined && !kept.frozenAt.has(buildId)) kept.frozenAt.set(buildId, receivedAt)
    kept.bytes += bytes.length
    return true
  })
  if (stored.includes(true)) kept.batches++
  return { stored, conflicts }
}

function positionAfter(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor)) {
    throw new IngestError('invalid-cursor', 'The cursor is not one that this store has given out.')
  }
  return Number(cursor) + 1
}
