import { crc32 } from 'node:zlib'
import type { IngestEvent } from '../events/event.ts'
import { quote } from '../json/bytes.ts'
import type { Cursor, EventCursors } from '../json/cursor.ts'
import { parseJson } from '../json/parse-json.ts'
import type { EventStore } from '../store.ts'
import { type AppendBatch, type AppendResult, aheadMsMax, type StoredEvent } from '../store-types.ts'
import { decodeEvents } from '../submit/batch-events.ts'

/** The events of one project. */
export interface ProjectEvents {
  cursors: EventCursors
  log: KeptEvent[]
  byId: Map<string, KeptEvent>
  /** When each build froze, in milliseconds since 1970. */
  frozenAt: Map<string, number>
  batches: { receivedAt: number; events: number }[]
  bytes: number
  /** Number of the oldest events that are known to be erased. */
  expired: number
}

/** Keeps the checksum of the event's cursor, because erasing the event must not change it. */
interface KeptEvent extends StoredEvent {
  checksum: number
}

export function createProjectEvents(cursors: EventCursors): ProjectEvents {
  return { cursors, log: [], byId: new Map(), frozenAt: new Map(), batches: [], bytes: 0, expired: 0 }
}

const expiryStepEvents = 100
const pageEvents = 100

/** `eventsOf` throws once the store is closed. */
export function memoryEventStore(eventsOf: (projectId: string) => ProjectEvents): EventStore {
  return {
    async append(projectId, batch) {
      return append(eventsOf(projectId), batch)
    },

    async known(projectId, eventIds) {
      const { byId } = eventsOf(projectId)
      return eventIds.map((eventId) => byId.has(eventId))
    },

    async find(projectId, eventId) {
      const found = eventsOf(projectId).byId.get(eventId)
      return found && toStoredEvent(found)
    },

    async *read(projectId, options = {}) {
      const {
        after,
        limit = Number.POSITIVE_INFINITY,
        from = Number.NEGATIVE_INFINITY,
        erased = false,
        signal,
      } = options
      const { log, cursors, expired } = eventsOf(projectId)
      let first = positionOf(cursors, log, after)
      if (!erased) first = Math.max(first, expired)
      for (let [i, left] = [first, limit]; left > 0; ) {
        // the store may be closed between two pages
        eventsOf(projectId)
        signal?.throwIfAborted()
        if (i >= log.length) return
        const page: StoredEvent[] = []
        for (; i < log.length && page.length < Math.min(left, pageEvents); i++) {
          const event = log[i] as KeptEvent
          const isWanted = event.receivedAt >= from && (event.erased === undefined || erased)
          if (isWanted) page.push(toStoredEvent(event))
        }
        left -= page.length
        yield page
      }
    },

    async totals(projectId) {
      const { log, batches, bytes, cursors } = eventsOf(projectId)
      const [first, last] = [batches[0], batches.at(-1)]
      const times = first && last && { firstAt: first.receivedAt, lastAt: last.receivedAt }
      const lastCursor = log.at(-1)?.cursor ?? cursors.encode(0, 0)
      return { events: log.length, batches: batches.length, bytes, ...times, lastCursor }
    },

    async erase(projectId, eventIds) {
      const kept = eventsOf(projectId)
      return eventIds.filter((eventId) => erase(kept, eventId)).length
    },

    async expire(projectId, before) {
      const kept = eventsOf(projectId)
      const bytesBefore = kept.bytes
      let events = 0
      for (let left = expiryStepEvents; left > 0 && hasExpired(kept, before); left--) {
        if (erase(kept, idOf(kept.log[kept.expired] as KeptEvent))) events++
        kept.expired++
      }
      return { events, bytes: bytesBefore - kept.bytes, isDone: !hasExpired(kept, before) }
    },

    async count(projectId, { after, from = Number.NEGATIVE_INFINITY }, batchesMax) {
      const { log, cursors, batches, expired } = eventsOf(projectId)
      const earlier = log.findLastIndex(({ receivedAt }) => receivedAt < from) + 1
      const first = Math.max(positionOf(cursors, log, after), earlier, expired)
      let end = 0
      const ends = batches.map(({ events }) => {
        end += events
        return end
      })
      const unread = ends.filter((each) => each > first)
      const counted = unread.slice(0, batchesMax)
      return {
        events: Math.max((counted.at(-1) ?? 0) - first, 0),
        batchesLeft: unread.length - counted.length,
        ...(log[first] && { firstAt: log[first].receivedAt }),
      }
    },
  }
}

/** The number of events up to the cursor, inclusive; 0 without a cursor. */
function positionOf(cursors: EventCursors, log: readonly KeptEvent[], cursor: Cursor | undefined): number {
  if (cursor === undefined) return 0
  const position = cursors.decode(cursor)
  cursors.check(cursor, position, position === 0 ? 0 : log[position - 1]?.checksum)
  return position
}

function append(kept: ProjectEvents, batch: AppendBatch): AppendResult {
  let conflicts = 0
  const frozen: string[] = []
  const time = Math.min(batch.receivedAt, Date.now() + aheadMsMax)
  const receivedAt = Math.max(time, kept.log.at(-1)?.receivedAt ?? Number.NEGATIVE_INFINITY)
  const stored = decodeEvents(batch.body, batch.events).map(({ eventId, buildId, start, end }) => {
    const bytes = Buffer.from(batch.body.subarray(start, end))
    // an event is an object and a tombstone is a string
    const isTombstone = bytes[0] === quote
    const existing = kept.byId.get(eventId)
    if (existing) {
      if (!isTombstone && existing.erased === undefined && !bytes.equals(existing.bytes)) conflicts++
      return false
    }
    const checksum = crc32(bytes)
    // the position of an event is its number in the project, from 1
    const cursor = kept.cursors.encode(kept.log.length + 1, checksum)
    const event: KeptEvent = { cursor, receivedAt, bytes, checksum }
    if (isTombstone) Object.assign(event, { bytes: Buffer.alloc(0), erased: eventId })
    kept.log.push(event)
    kept.byId.set(eventId, event)
    kept.bytes += event.bytes.length
    if (buildId !== undefined && !kept.frozenAt.has(buildId)) {
      kept.frozenAt.set(buildId, receivedAt)
      frozen.push(buildId)
    }
    return true
  })
  const count = stored.filter(Boolean).length
  if (count > 0) kept.batches.push({ receivedAt, events: count })
  return { stored, conflicts, frozen }
}

/** Returns whether the event was stored and not erased. */
function erase(kept: ProjectEvents, eventId: string): boolean {
  const event = kept.byId.get(eventId)
  if (!event || event.erased !== undefined) return false
  kept.bytes -= event.bytes.length
  event.bytes = Buffer.alloc(0)
  event.erased = eventId
  return true
}

/** Whether the oldest event that is not known to be erased was received before this time. */
function hasExpired({ log, expired }: ProjectEvents, before: number): boolean {
  const next = log[expired]
  return next !== undefined && next.receivedAt < before
}

function idOf({ erased, bytes }: KeptEvent): string {
  return erased ?? (parseJson(bytes) as IngestEvent).eventId
}

/** Returns a copy, because erasing changes the stored event. */
function toStoredEvent({ checksum: _, ...event }: KeptEvent): StoredEvent {
  return event
}
