import type { AppendResult, Totals } from '@ingest/core'
import { column, wordsPerEvent } from '@ingest/core/internal'
import type { Table } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import type { IdIndex } from '../ids/id-index.ts'
import type { EventLog, EventLogTables } from '../log/event-log.ts'
import type { Position } from '../log/record.ts'
import {
  decodeRecord,
  encodeRecord,
  eventAt,
  type LogRecord,
  parseEventId,
  payloadOf,
  readFingerprints,
  readHeader,
  readUnverified,
  recordBytes,
  sealRecord,
} from '../log/record.ts'

/** What an append stored; mostly all or nothing, which is a short message to another thread. */
export type Appended = 'all' | 'none' | AppendResult

/** A batch in which no id occurs twice. */
export interface BatchToAppend {
  project: number
  body: Uint8Array
  /** The rows of `BatchEvents`, with fingerprints in place of hashes. */
  rows: Uint32Array
  builds: readonly string[]
  receivedAt: number
}

/** Appends batches to the log, and locates events in it. Projects are identified by number. */
export interface Appender {
  /** Finds the end of the log, to which other processes append too. Call it first in each write transaction. */
  begin(): void
  /** Stores the new events of a batch. Only inside a write transaction. */
  append(batch: BatchToAppend): Appended
  /** Writes what is written once for all batches of a transaction. Call it last in each. */
  end(): void
  /** The positions of the events with these ids. */
  locate(project: number, eventIds: readonly string[], fingerprints: Uint32Array): (Position | undefined)[]
}

/** @param onFreeze called in the transaction that freezes a build */
export function createAppender(
  tables: EventLogTables,
  eventLog: EventLog,
  ids: IdIndex,
  onFreeze: (project: number, buildId: string) => void,
): Appender {
  const { log, projectLog, freezes } = tables
  let nextSequence = 0
  /** When the last record was received. Times never decrease, because readers search by time. */
  let lastAt = Number.NEGATIVE_INFINITY
  /** Of the projects of this transaction. */
  const changedTotals = new Map<number, Totals>()

  /** Memory for one record at a time. */
  let memory = Buffer.allocUnsafeSlow(0)

  function encode({ body, receivedAt }: BatchToAppend, rows: Uint32Array): Buffer {
    const bytes = recordBytes(rows)
    if (memory.length < bytes) memory = Buffer.allocUnsafeSlow(bytes)
    return encodeRecord(body, rows, receivedAt, memory)
  }

  function append(batch: BatchToAppend): Appended {
    const { project, rows, builds } = batch
    const record = encode(batch, rows)
    const fingerprints = readFingerprints(record, nextSequence)
    const count = fingerprints.length / 2
    const earlier = readerOf(log)
    // a retried batch has the same bytes, so its first event identifies all of them
    const again = ids.search(fingerprints, 1).some(({ position }) => {
      const { project: of, bytes } = earlier(position.sequence)
      return of === project && payloadOf(bytes).equals(payloadOf(record))
    })
    if (again) return 'none'
    const candidates = ids.search(fingerprints, count)
    if (candidates.length === 0) {
      write(project, record, builds)
      return 'all'
    }
    const found: (Match | undefined)[] = []
    for (const { queryIndex: of, position } of candidates) {
      found[of] ??= compare(project, eventAt(record, of), earlier(position.sequence), position.index)
    }
    const stored = Array.from({ length: count }, (_, i) => found[i] === undefined)
    if (stored.includes(true)) {
      const fresh = rows.filter((_, word) => stored[Math.floor(word / wordsPerEvent)])
      write(project, encode(batch, fresh), buildsOf(fresh, builds))
    }
    return { stored, conflicts: found.filter((match) => match === 'conflict').length }
  }

  function write(project: number, record: Buffer, builds: readonly string[]): void {
    const { count, receivedAt } = readUnverified(record)
    const sequence = nextSequence++
    const key = sequenceKey(sequence)
    lastAt = Math.max(lastAt, receivedAt)
    sealRecord(record, project, lastAt)
    log.put(key, record)
    projectLog.put(projectKey(project, key), nothing)
    ids.addRecord(sequence, readFingerprints(record, sequence), count)
    for (const buildId of builds) freeze(project, buildId, lastAt)
    const { events, batches, bytes } = changedTotals.get(project) ?? eventLog.totals(project)
    const payloadBytes = payloadOf(record).length
    changedTotals.set(project, { events: events + count, batches: batches + 1, bytes: bytes + payloadBytes })
  }

  function freeze(project: number, buildId: string, at: number): void {
    const key = projectKey(project, Buffer.from(buildId))
    if (freezes.doesExist(key)) return
    const value = Buffer.allocUnsafe(8)
    value.writeDoubleLE(at)
    freezes.put(key, value)
    onFreeze(project, buildId)
  }

  return {
    begin() {
      changedTotals.clear()
      const last = eventLog.lastSequence()
      ids.catchUp(last)
      nextSequence = last + 1
      lastAt = last === 0 ? Number.NEGATIVE_INFINITY : eventLog.receivedAt(last)
    },

    append,

    end() {
      for (const [project, totals] of changedTotals) eventLog.putTotals(project, totals)
    },

    locate(project, eventIds, fingerprints) {
      ids.catchUp(eventLog.lastSequence())
      const earlier = readerOf(log)
      const positions: (Position | undefined)[] = eventIds.map(() => undefined)
      for (const { queryIndex: of, position } of ids.search(fingerprints, eventIds.length)) {
        const record = earlier(position.sequence).verified()
        const event = record.project === project ? record.events[position.index] : undefined
        if (event && parseEventId(event) === eventIds[of]) positions[of] = position
      }
      return positions
    },
  }
}

const nothing = Buffer.alloc(0)

interface EarlierRecord {
  project: number
  /** Not verified. */
  bytes: Buffer
  /** @throws {IngestError} `store-damaged` */
  verified(): LogRecord
}

type Reader = (sequence: number) => EarlierRecord

/** Reads each record once during one append. */
function readerOf(log: Table): Reader {
  const records = new Map<number, EarlierRecord>()
  return (sequence) => {
    const record = records.get(sequence) ?? earlierRecord(log.getBinary(sequenceKey(sequence)), sequence)
    records.set(sequence, record)
    return record
  }
}

function earlierRecord(bytes: Buffer | undefined, sequence: number): EarlierRecord {
  // the index names no record that is missing or empty
  const { project } = readHeader(bytes, sequence)
  let verified: LogRecord | undefined
  return {
    project,
    bytes: bytes as Buffer,
    verified() {
      verified ??= decodeRecord(bytes, sequence)
      return verified
    },
  }
}

/** The builds that the events of `rows` reference, of those of their batch. */
function buildsOf(rows: Uint32Array, builds: readonly string[]): string[] {
  const indexes = new Set<number>()
  for (let at = column.build; at < rows.length; at += wordsPerEvent) indexes.add(rows[at] as number)
  return builds.filter((_, index) => indexes.has(index))
}

/** How an event compares with the stored one of the same id. */
type Match = 'same' | 'conflict'

/**
 * Compares an event with the one at an index of an earlier record; undefined if that has another id or project.
 *
 * @throws {IngestError} `store-damaged`: a damaged record must not make its events unknown.
 */
function compare(project: number, event: Buffer, earlier: EarlierRecord, index: number): Match | undefined {
  if (earlier.project === project && eventAt(earlier.bytes, index).equals(event)) return 'same'
  // as a whole, because the number of the project may be damaged too
  const verified = earlier.verified()
  const stored = verified.project === project ? verified.events[index] : undefined
  return stored && parseEventId(stored) === parseEventId(event) ? 'conflict' : undefined
}
