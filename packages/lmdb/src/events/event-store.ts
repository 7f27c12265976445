import {
  type AppendBatch,
  type AppendResult,
  type BatchEvents,
  decodeEvents,
  type EventCursors,
  type EventStore,
  eventCursors,
  type ReadOptions,
  type StoredEvent,
  type Totals,
} from '@ingest/core'
import { countEvents, encodeEvents, hashId, nextReadStep, type ReadStep } from '@ingest/core/internal'
import type { LmdbIdentity } from '../environment/identity.ts'
import { type Fingerprint, withFingerprints } from '../ids/fingerprint.ts'
import { checkListed, type EventLog, type ListedRecord, type LoggedEvent } from '../log/event-log.ts'
import { isTombstone, type Position, parseEventId } from '../log/record.ts'
import { type SlicedReads, type SnapshotReader, stepLookupsMax } from '../log/snapshot-reader.ts'
import type { Writer } from '../writer/writer-client.ts'
import { countRange } from './counts.ts'

export interface EventStoreOptions {
  identity: LmdbIdentity
  fingerprint: Fingerprint
  log: EventLog
  writer: Writer
  reader: SnapshotReader
  slicedReads(projectId: string): SlicedReads
  /** @throws {IngestError} `store-closed` */
  checkOpen(): void
}

/** The bytes of events that a reader reads in one step. */
const stepBytes = 32_768
/** The least bytes that a record counts in a step: records of erased events are short. */
const recordBytesMin = 256
/** The most ids that one transaction erases: each may be in a different record. */
const erasuresPerStep = 64

export function createEventStore(options: EventStoreOptions): Omit<EventStore, 'hashKey'> {
  const { identity, fingerprint, log, writer, reader, slicedReads } = options
  const { readLog, numberOf } = reader

  function fingerprintsOf(project: number, eventIds: readonly string[]): Uint32Array {
    const fingerprints = new Uint32Array(eventIds.length * 2)
    for (const [i, eventId] of eventIds.entries()) {
      fingerprint(project, ...hashId(identity.hashKey, eventId), fingerprints, i * 2)
    }
    return fingerprints
  }

  /** Hashes the ids again if they were hashed with another key. */
  function withOwnHashes(body: Uint8Array, events: BatchEvents): BatchEvents {
    return events.hashKey === identity.hashKey ? events : encodeEvents(decodeEvents(body, events), identity.hashKey)
  }

  async function locate(projectId: string, eventIds: readonly string[]): Promise<(Position | undefined)[]> {
    const project = numberOf(projectId)
    if (project === undefined) return eventIds.map(() => undefined)
    return writer.locate(project, [...eventIds], fingerprintsOf(project, eventIds))
  }

  return {
    async append(projectId, { body, mayTransfer, events, receivedAt, onCommit }: AppendBatch): Promise<AppendResult> {
      const count = countEvents(events)
      if (count === 0) return { stored: [], conflicts: 0, frozen: [] }
      const project = numberOf(projectId)
      const { rows, builds } = withOwnHashes(body, events)
      const own = {
        body: mayTransfer && isWholeMemory(body) ? body : Uint8Array.prototype.slice.call(body),
        builds,
        receivedAt,
      }
      const appended = await writer.append(
        project === undefined
          ? { ...own, projectId, rows: rows.slice() }
          : { ...own, project, rows: withFingerprints(rows, project, fingerprint) },
        onCommit,
      )
      const stored: boolean[] = new Array(count).fill(appended !== 'none')
      if (typeof appended !== 'object') return { stored, conflicts: 0, frozen: [] }
      for (const index of appended.duplicates) stored[index] = false
      return { stored, conflicts: appended.conflicts, frozen: appended.frozen }
    },

    async known(projectId, eventIds) {
      return (await locate(projectId, eventIds)).map((position) => position !== undefined)
    },

    async find(projectId, eventId) {
      const [position] = await locate(projectId, [eventId])
      if (!position) return undefined
      const event = readLog(projectId, undefined, (project) => log.events(project, position)[position.index])
      return event && toStoredEvent(event, eventCursors(identity, projectId))
    },

    read: createRead(options),

    async totals(projectId) {
      const cursors = eventCursors(identity, projectId)
      const none = {
        events: 0,
        batches: 0,
        bytes: 0,
        lastCursor: toCursor({ position: beginning, checksum: 0 }, cursors),
      }
      return readLog<Totals>(projectId, none, (project) => readTotals(log, project, cursors) ?? none)
    },

    async erase(projectId, eventIds) {
      const project = numberOf(projectId)
      let erased = 0
      for (let from = 0; project !== undefined && from < eventIds.length; from += erasuresPerStep) {
        const ids = [...new Set(eventIds.slice(from, from + erasuresPerStep))]
        const fingerprints = fingerprintsOf(project, ids)
        erased += await writer.erasure({ type: 'erase', project, eventIds: ids, fingerprints })
      }
      return erased
    },

    async expire(projectId, before) {
      await nextReadStep(projectId)
      options.checkOpen()
      // most calls find nothing to erase; this avoids a transaction, which would be synced
      const project = readLog<number | undefined>(projectId, undefined, (project) => {
        const [left] = log.records(project, log.expiredBefore(project), 1)
        return left && log.header(left.sequence).receivedAt < before ? project : undefined
      })
      if (project === undefined) return { events: 0, bytes: 0, isDone: true }
      return writer.erasure({ type: 'expire', project, before })
    },

    async count(projectId, { after, from }, batchesMax) {
      const start = startOf(options, projectId, after)
      const project = numberOf(projectId)
      if (project === undefined) return { events: 0, batchesLeft: 0 }
      return countRange(log, slicedReads(projectId), { project, after: start, from, batchesMax })
    },
  }
}

/** Undefined without events. */
function readTotals(log: EventLog, project: number, cursors: EventCursors): Totals | undefined {
  const last = log.last(project)
  const [first] = log.records(project, 0, 1)
  if (!first || !last) return undefined
  const header = log.header(first.sequence)
  checkListed(header, project, first)
  const lastAt = log.header(last.position.sequence).receivedAt
  return { ...log.totals(project), firstAt: header.receivedAt, lastAt, lastCursor: toCursor(last, cursors) }
}

/**
 * The position of a cursor; the beginning without one.
 *
 * @throws {IngestError} `invalid-cursor`
 */
function startOf(
  { identity, log, reader }: EventStoreOptions,
  projectId: string,
  cursor: string | undefined,
): Position {
  if (cursor === undefined) return beginning
  const cursors = eventCursors(identity, projectId)
  const position = cursors.decode(cursor)
  const at = positionOf(position)
  const stored = () => reader.readLog(projectId, undefined, (project) => log.checksumAt(project, at))
  cursors.check(cursor, position, position === 0 ? 0 : stored())
  return at
}

function createRead(storeOptions: EventStoreOptions): EventStore['read'] {
  const { identity, log, reader, checkOpen } = storeOptions
  const { readProject, readLog } = reader

  return async function* read(projectId, options: ReadOptions = {}) {
    const { after, limit = Number.POSITIVE_INFINITY, from, erased = false, signal } = options
    checkOpen()
    const cursors = eventCursors(identity, projectId)
    const start = startOf(storeOptions, projectId, after)
    let left = limit
    let step: ReadStep = { isOver: true }
    let stepBytesLeft = 0
    let page: StoredEvent[] = []
    const first = from === undefined ? 0 : readLog(projectId, 0, () => log.firstSince(from))
    let next = Math.max(start.sequence, first)
    while (left > 0) {
      signal?.throwIfAborted()
      checkOpen()
      const records = readLog<ListedRecord[]>(projectId, [], (project) => {
        if (!erased) next = Math.max(next, log.expiredBefore(project))
        return log.records(project, next, stepLookupsMax)
      })
      if (records.length === 0) return
      for (const record of records) {
        if (isStepOver()) yield* endStep()
        for (const event of yield* readRecord(record)) {
          if (record.sequence === start.sequence && event.position.index <= start.index) continue
          // if `from` is in the future, this record was stored after the search for it
          if (from !== undefined && event.receivedAt < from) continue
          if (isTombstone(event.bytes) && !erased) {
            stepBytesLeft -= event.bytes.length + (event.position.index === 0 ? recordBytesMin : 0)
            continue
          }
          if (isStepOver()) yield* endStep()
          stepBytesLeft -= event.bytes.length
          page.push(toStoredEvent(event, cursors))
          if (--left > 0) continue
          yield page
          return
        }
        next = record.sequence + 1
      }
      yield* takePage()
    }

    function* takePage(): Generator<StoredEvent[]> {
      const taken = page
      page = []
      if (taken.length > 0) yield taken
    }

    /** The events of a record. If it is damaged, yields the events before it first. */
    function* readRecord(record: ListedRecord): Generator<StoredEvent[], LoggedEvent[]> {
      try {
        return readProject<LoggedEvent[]>(projectId, [], (project) => log.events(project, record))
      } catch (error) {
        yield* takePage()
        throw error
      }
    }

    function isStepOver(): boolean {
      return step.isOver || stepBytesLeft <= 0
    }

    /** Yields what was read, and begins the next step. */
    async function* endStep(): AsyncGenerator<StoredEvent[], void> {
      yield* takePage()
      step = await nextReadStep(projectId)
      stepBytesLeft = stepBytes
      signal?.throwIfAborted()
      checkOpen()
    }
  }
}

/** Whether the bytes fill their whole buffer, so that it can be transferred. */
function isWholeMemory({ buffer, length }: Uint8Array): boolean {
  return buffer instanceof ArrayBuffer && buffer.byteLength === length
}

function toStoredEvent(event: LoggedEvent, cursors: EventCursors): StoredEvent {
  const { receivedAt, bytes } = event
  const cursor = toCursor(event, cursors)
  return isTombstone(bytes)
    ? { cursor, receivedAt, bytes: Buffer.alloc(0), erased: parseEventId(bytes) }
    : { cursor, receivedAt, bytes }
}

/** The position before the first record. */
const beginning: Position = { sequence: 0, index: 0 }
/** No record holds more events. */
const positionsPerRecord = 256

function toCursor({ position, checksum }: Pick<LoggedEvent, 'position' | 'checksum'>, cursors: EventCursors): string {
  return cursors.encode(position.sequence * positionsPerRecord + position.index, checksum)
}

function positionOf(position: number): Position {
  return { sequence: Math.floor(position / positionsPerRecord), index: position % positionsPerRecord }
}
