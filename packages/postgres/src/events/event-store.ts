import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import {
  type EventCursors,
  type EventStore,
  eventCursors,
  type ReadOptions,
  type StoredEvent,
  type StoreIdentity,
} from '@ingest/core'
import { sliceMember } from '@ingest/core/internal'
import { byteaArray } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import { createProjectQuery, type ProjectNumbers, type ProjectQuery } from '../projects/project-numbers.ts'
import type { AppendQueue } from './append-queue.ts'
import { type BatchEvent, isTombstone, splitEvents } from './batch-body.ts'
import { eventKey } from './event-key.ts'

export interface EventStoreOptions {
  database: Database
  numbers: ProjectNumbers
  queue: AppendQueue
  identity: StoreIdentity
  /** @throws {IngestError} `store-closed` */
  checkOpen(): void
}

interface BatchRow {
  seq: number
  /** Random: if a failover loses this batch, another one at the same `seq` has another id. */
  id: string
  received_at: number
  body: string
}

/** The events of a batch have the positions from `seq * positionsPerBatch + 1`. */
const positionsPerBatch = 2 ** 15
/** Batches of the first statement of a read: most reads at the end of the log find few. */
const firstReadBatches = 4
const readBatchesMax = 64
/** Target size of the batches that one statement reads, in bytes. */
const readBytes = 2 ** 20
/** Minimum size of a page, in bytes, unless the read ends: it ends after the batch that reaches it. */
const pageBytesMin = 32_768
/** Maximum number of batches that one statement changes: about 600 kB, at most 4 MiB. */
const erasedBatchesMax = 16

export function createEventStore(options: EventStoreOptions): Omit<EventStore, 'watch'> {
  const { database, numbers, queue, identity } = options
  const query = createProjectQuery(database, numbers)

  /** The batch of a cursor, the number of its events up to the cursor, and the last batch without unread events. */
  async function findStart(projectId: string, after: string | undefined) {
    if (after === undefined) return { seq: 0, read: 0, behind: 0 }
    const cursors = eventCursors(identity, projectId)
    const position = cursors.decode(after)
    const { seq, index } = placeOf(position)
    const [found] = await query<BatchRow>(projectId, 'batches-from', seq, 1, true)
    cursors.check(after, position, recordAt(found, seq, index))
    const events = found?.seq === seq ? splitEvents(found.body) : []
    const read = events.filter((each) => each.index <= index).length
    return { seq, read, behind: read < events.length ? seq - 1 : seq }
  }

  return {
    async append(projectId, batch) {
      if (batch.events.rows.length === 0) return { stored: [], conflicts: 0, frozen: [] }
      return queue.append(projectId, batch)
    },

    async known(projectId, eventIds) {
      const known = eventIds.map(() => false)
      const keys = byteaArray(eventIds.map(eventKey))
      for (const { index } of await query<{ index: number }>(projectId, 'known', keys)) known[index] = true
      return known
    },

    async find(projectId, eventId) {
      const [row] = await query<BatchRow & { idx: number }>(projectId, 'find', eventKey(eventId))
      if (!row) return undefined
      const event = splitEvents(row.body).find(({ index }) => index === row.idx)
      return event && toEvent(eventCursors(identity, projectId), row, event)
    },

    read: createRead(options, query),

    ...createErasure(query, createProjectQuery({ query: database.queryConfirmed }, numbers)),

    async totals(projectId) {
      const [row] = await query<TotalsRow>(projectId, 'totals')
      const cursors = eventCursors(identity, projectId)
      if (!row) return { events: 0, batches: 0, bytes: 0, lastCursor: cursors.encode(0, 0) }
      const { first_at: firstAt, last_at: lastAt, id, idx: index, ...totals } = row
      return { ...totals, firstAt, lastAt, lastCursor: encodeCursor(cursors, { seq: totals.batches, id, index }) }
    },

    async count(projectId, { after, from }, batchesMax) {
      const { seq, read, behind } = await findStart(projectId, after)
      const since = from === undefined ? null : wholeMs(from)
      const [row] = await query<CountRow>(projectId, 'count', behind, since, batchesMax)
      if (!row) return { events: 0, batchesLeft: 0 }
      const isCounted = row.counted > 0 && row.behind < seq
      return {
        events: row.events - (isCounted ? read : 0),
        batchesLeft: row.batches - row.counted,
        ...(row.first_at !== null && { firstAt: row.first_at }),
      }
    },
  }
}

interface TotalsRow {
  events: number
  batches: number
  bytes: number
  first_at: number
  last_at: number
  /** The last batch, and the index of its last event. */
  id: string
  idx: number
}

interface CountRow {
  /** The last batch that is not counted. */
  behind: number
  batches: number
  counted: number
  events: number
  first_at: number | null
}

function createRead({ identity, checkOpen }: EventStoreOptions, query: ProjectQuery): EventStore['read'] {
  const readBatches = shareReads((projectId, ...values) => query<BatchRow>(projectId, 'batches-from', ...values))
  return async function* read(projectId, options: ReadOptions = {}) {
    const { after, limit = Number.POSITIVE_INFINITY, from, erased = false, signal } = options
    checkOpen()
    const cursors = eventCursors(identity, projectId)
    const position = after === undefined ? 0 : cursors.decode(after)
    let { seq, index } = placeOf(position)
    // the batch of a cursor is always read
    let rows = await readBatches(projectId, seq, firstReadBatches, erased || after !== undefined)
    if (after !== undefined) cursors.check(after, position, recordAt(rows[0], seq, index))
    if (from !== undefined) {
      const [first] = await query<{ seq: number }>(projectId, 'first-batch-since', wholeMs(from))
      if (!first) return
      if (first.seq > seq) {
        ;[seq, index] = [first.seq, -1]
        rows = await readBatches(projectId, seq, firstReadBatches, erased)
      }
    }
    for (let left = limit; ; ) {
      signal?.throwIfAborted()
      let isEmpty = true
      let page: StoredEvent[] = []
      let pageBytes = 0
      for (const row of rows) {
        for (const stored of splitEvents(row.body)) {
          if (row.seq === seq && stored.index <= index) continue
          isEmpty = false
          if (left === 0) break
          if (isTombstone(stored.bytes) && !erased) continue
          left--
          page.push(toEvent(cursors, row, stored))
        }
        pageBytes += row.body.length
        const isFull = pageBytes >= pageBytesMin || left === 0 || row === rows.at(-1)
        if (page.length === 0 || !isFull) continue
        checkOpen()
        signal?.throwIfAborted()
        yield page
        if (left === 0) return
        page = []
        pageBytes = 0
      }
      // events may be stored during the read, so only a read without batches is the end
      if (isEmpty || left === 0) return
      ;[seq, index] = [(rows.at(-1) as BatchRow).seq + 1, -1]
      rows = await readBatches(projectId, seq, nextReadBatches(rows), erased)
    }
  }
}

type ReadBatches = (projectId: string, seq: number, count: number, erased: boolean) => Promise<BatchRow[]>

/** Equal reads that are requested in one turn share one query: an append may wake hundreds of long polls. */
function shareReads(readBatches: ReadBatches): ReadBatches {
  const unsent = new Map<string, Promise<BatchRow[]>>()
  return (projectId, seq, count, erased) => {
    const key = `${seq}/${count}/${erased}/${projectId}`
    const shared = unsent.get(key)
    if (shared) return shared
    const rows = nextTurn().then(() => {
      unsent.delete(key)
      return readBatches(projectId, seq, count, erased)
    })
    unsent.set(key, rows)
    return rows
  }
}

/** The batch and the event index of a position; batch 0 and index -1 before the first event. */
function placeOf(position: number): { seq: number; index: number } {
  return { seq: Math.floor(position / positionsPerBatch), index: (position % positionsPerBatch) - 1 }
}

/** The event's checksum, for its cursor; 0 before the first event, undefined if it is not stored. */
function recordAt(row: BatchRow | undefined, seq: number, index: number): number | undefined {
  if (index === -1) return seq === 0 ? 0 : undefined
  if (row?.seq !== seq || !splitEvents(row.body).some((each) => each.index === index)) return undefined
  return crc32(row.id)
}

/** Rounds a time to a `bigint`, without skipping a stored time. */
function wholeMs(ms: number): number {
  return Math.min(Math.max(Math.ceil(ms) || 0, 0), Number.MAX_SAFE_INTEGER)
}

/** How many batches of the average size of these make {@link readBytes}. */
function nextReadBatches(rows: readonly BatchRow[]): number {
  const bytes = rows.reduce((sum, { body }) => sum + body.length, 0)
  return Math.max(1, Math.min(readBatchesMax, Math.floor((rows.length * readBytes) / bytes)))
}

function encodeCursor(cursors: EventCursors, { seq, id, index }: { seq: number; id: string; index: number }): string {
  return cursors.encode(seq * positionsPerBatch + index + 1, crc32(id))
}

function toEvent(
  cursors: EventCursors,
  { seq, id, received_at: receivedAt }: BatchRow,
  { index, bytes }: BatchEvent,
): StoredEvent {
  const cursor = encodeCursor(cursors, { seq, id, index })
  if (!isTombstone(bytes)) return { cursor, receivedAt, bytes }
  return { cursor, receivedAt, bytes: Buffer.alloc(0), erased: JSON.parse(bytes.toString()) }
}

function createErasure(query: ProjectQuery, queryConfirmed: ProjectQuery): Pick<EventStore, 'erase' | 'expire'> {
  /** Resolves once the synchronous standby has earlier erasures. */
  const confirm = (projectId: string) => queryConfirmed(projectId, 'totals')

  async function eraseKeys(projectId: string, keys: readonly Buffer[], through?: number) {
    // a repeated statement uses the same id
    const values = [randomUUID(), byteaArray(keys), through]
    const [row] = await query<{ events: number; bytes: number }>(projectId, 'erase', ...values)
    return row ?? { events: 0, bytes: 0 }
  }

  return {
    async erase(projectId, eventIds) {
      const keys = [...new Set(eventIds)].map(eventKey)
      const rows = await query<{ index: number; batch: string }>(projectId, 'batches-of', byteaArray(keys))
      const byBatch = new Map<string, Buffer[]>()
      for (const { index, batch } of rows) byBatch.set(batch, [...(byBatch.get(batch) ?? []), keys[index] as Buffer])
      const groups = [...byBatch.values()]
      if (groups.length === 0) await confirm(projectId)
      let erased = 0
      for (let at = 0; at < groups.length; at += erasedBatchesMax) {
        erased += (await eraseKeys(projectId, groups.slice(at, at + erasedBatchesMax).flat())).events
      }
      return erased
    },

    async expire(projectId, before) {
      const rows = await query<BatchRow>(projectId, 'batches-to-expire', wholeMs(before), erasedBatchesMax)
      const events = rows.flatMap(({ body }) => splitEvents(body)).filter(({ bytes }) => !isTombstone(bytes))
      const isDone = rows.length < erasedBatchesMax
      if (rows.length === 0) {
        await confirm(projectId)
        return { events: 0, bytes: 0, isDone }
      }
      const keys = events.map(({ bytes }) => keyOf(bytes))
      return { ...(await eraseKeys(projectId, keys, rows.at(-1)?.seq)), isDone }
    },
  }
}

/** The key of a stored event. */
function keyOf(event: Buffer): Buffer {
  return eventKey(JSON.parse(String(sliceMember(event, 'eventId'))))
}
