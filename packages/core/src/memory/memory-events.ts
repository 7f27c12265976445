import { crc32 } from 'node:zlib'
import { decodeEvents } from '../events/batch-events.ts'
import type { AppendBatch, AppendResult, EventStore, StoredEvent } from '../events/event-store.ts'
import type { EventCursors } from '../json/cursor.ts'

/** The events of one project. */
export interface ProjectEvents {
  cursors: EventCursors
  log: StoredEvent[]
  byId: Map<string, StoredEvent>
  /** When each build froze, in milliseconds since 1970. */
  frozenAt: Map<string, number>
  batches: { receivedAt: number; events: number }[]
  bytes: number
}

export function createProjectEvents(cursors: EventCursors): ProjectEvents {
  return { cursors, log: [], byId: new Map(), frozenAt: new Map(), batches: [], bytes: 0 }
}

/** `eventsOf` throws once the store is closed; `onFreeze` is called for each build that freezes. */
export function memoryEventStore(
  eventsOf: (projectId: string) => ProjectEvents,
  onFreeze: (projectId: string, buildId: string) => void,
): EventStore {
  return {
    async append(projectId, batch) {
      return append(eventsOf(projectId), batch, (buildId) => onFreeze(projectId, buildId))
    },

    async known(projectId, eventIds) {
      const { byId } = eventsOf(projectId)
      return eventIds.map((eventId) => byId.has(eventId))
    },

    async find(projectId, eventId) {
      return eventsOf(projectId).byId.get(eventId)
    },

    async *read(projectId, { after, limit = Number.POSITIVE_INFINITY, from = Number.NEGATIVE_INFINITY } = {}) {
      const { log, cursors } = eventsOf(projectId)
      let first = after === undefined ? 0 : cursors.decode(after)
      if (after !== undefined) cursors.check(after, first, first === 0 ? 0 : checksumOf(log[first - 1]?.bytes))
      while (first < log.length && (log[first] as StoredEvent).receivedAt < from) first++
      for (let i = first; i < log.length && i - first < limit; i++) {
        // the store may be closed between two steps
        eventsOf(projectId)
        yield log[i] as StoredEvent
      }
    },

    async lastCursor(projectId) {
      const { log, cursors } = eventsOf(projectId)
      return log.at(-1)?.cursor ?? cursors.encode(0, 0)
    },

    async totals(projectId) {
      const { log, batches, bytes } = eventsOf(projectId)
      const [first, last] = [batches[0], batches.at(-1)]
      const times = first && last && { firstAt: first.receivedAt, lastAt: last.receivedAt }
      return { events: log.length, batches: batches.length, bytes, ...times }
    },

    async erase() {
      throw new Error('not implemented')
    },

    async expire() {
      throw new Error('not implemented')
    },

    async countSince(projectId, since, batchesMax) {
      const newest = eventsOf(projectId).batches.slice(-batchesMax)
      const recent = newest.slice(newest.findLastIndex(({ receivedAt }) => receivedAt < since) + 1)
      const events = recent.reduce((sum, batch) => sum + batch.events, 0)
      const countedSince = recent.length === batchesMax ? recent[0]?.receivedAt : undefined
      return { events, since: countedSince ?? since }
    },
  }
}

function append(kept: ProjectEvents, batch: AppendBatch, onFreeze: (buildId: string) => void): AppendResult {
  let conflicts = 0
  const frozen: string[] = []
  const receivedAt = Math.max(batch.receivedAt, kept.log.at(-1)?.receivedAt ?? Number.NEGATIVE_INFINITY)
  const stored = decodeEvents(batch.body, batch.events).map(({ eventId, buildId, start, end }) => {
    const bytes = Buffer.from(batch.body.subarray(start, end))
    const existing = kept.byId.get(eventId)
    if (existing) {
      if (!bytes.equals(existing.bytes)) conflicts++
      return false
    }
    // the position of an event is its number in the project, from 1
    const event = { cursor: kept.cursors.encode(kept.log.length + 1, crc32(bytes)), receivedAt, bytes }
    kept.log.push(event)
    kept.byId.set(eventId, event)
    kept.bytes += bytes.length
    if (buildId !== undefined && !kept.frozenAt.has(buildId)) {
      kept.frozenAt.set(buildId, receivedAt)
      frozen.push(buildId)
      onFreeze(buildId)
    }
    return true
  })
  const count = stored.filter(Boolean).length
  if (count > 0) kept.batches.push({ receivedAt, events: count })
  return { stored, conflicts, frozen }
}

function checksumOf(bytes: Uint8Array | undefined): number | undefined {
  return bytes && crc32(bytes)
}
