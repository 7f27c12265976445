import { IngestError, type Totals } from '@ingest/core'
import { aheadMsMax, column, wordsPerEvent } from '@ingest/core/internal'
import type { Table } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import type { Candidate } from '../ids/entry.ts'
import type { IdIndex } from '../ids/id-index.ts'
import type { EventLog, EventLogTables } from '../log/event-log.ts'
import { checkSeen, type LogEnd, readLogEnd } from '../log/log-end.ts'
import type { Position } from '../log/record.ts'
import {
  countedBytes,
  decodeRecord,
  encodeRecord,
  eventAt,
  fingerprintsIn,
  idBytes,
  isTombstone,
  type LogRecord,
  parseEventId,
  payloadOf,
  readChecksum,
  readUnverified,
  recordBytes,
  sealRecord,
  verifyRecord,
} from '../log/record.ts'

/** What an append did. Mostly it stores all or nothing and freezes no build, which makes a short message. */
export type Appended = 'all' | 'none' | { duplicates: number[]; conflicts: number; frozen: string[] }

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
  /**
   * Finds the end of the log, to which other processes append too. Call it first in each write transaction.
   *
   * @throws {IngestError} `store-failed` if the log has lost a record that this process has seen
   */
  begin(): void
  /** Stores the new events of a batch. Only inside a write transaction. */
  append(batch: BatchToAppend): Appended
  /** Takes the bytes of erased events out of the totals of their project. Only inside a write transaction. */
  reduceBytes(project: number, bytes: number): void
  /** Writes the totals of the projects that changed. Call it last in each write transaction. */
  end(): void
  /** Call it when the transaction is committed. */
  committed(): void
  /**
   * The positions of the events with these ids.
   *
   * @throws {IngestError} as {@link begin}
   */
  locate(project: number, eventIds: readonly string[], fingerprints: Uint32Array): (Position | undefined)[]
}

export interface AppenderEvents {
  /** Called in the transaction that freezes a build. */
  onFreeze(project: number, buildId: string): void
  /** Called with the number of the last record of the log, once it is known to be committed. */
  onSeen(sequence: number): void
}

export function createAppender(
  tables: EventLogTables,
  eventLog: EventLog,
  ids: IdIndex,
  { onFreeze, onSeen }: AppenderEvents,
): Appender {
  const { log, projectLog, freezes } = tables
  /** The last committed record that this process has seen. */
  let seen: LogEnd = readLogEnd(eventLog)
  /** The last record in this transaction. */
  let last = seen
  /** When it was received. Times never decrease, because readers search by time. */
  let lastAt = Number.NEGATIVE_INFINITY
  /** The latest time that a record of this transaction may get. */
  let latestAt = Number.NEGATIVE_INFINITY
  /** By project, of those that this transaction has changed. */
  const changedTotals = new Map<number, Totals>()

  /** Reused for one record after another. */
  let memory = Buffer.allocUnsafeSlow(0)

  function encode({ body, receivedAt }: BatchToAppend, rows: Uint32Array): Buffer {
    const bytes = recordBytes(rows)
    if (memory.length < bytes) memory = Buffer.allocUnsafeSlow(bytes)
    return encodeRecord(body, rows, receivedAt, memory)
  }

  function append(batch: BatchToAppend): Appended {
    const { project, rows, builds } = batch
    const record = encode(batch, rows)
    const fingerprints = fingerprintsIn(record)
    const count = fingerprints.length / 2
    if (isRetry(project, record, ids.search(fingerprints, 1))) return 'none'
    const candidates = ids.search(fingerprints, count)
    if (candidates.length === 0) {
      const frozen = write(project, record, rows, builds)
      return frozen.length === 0 ? 'all' : { duplicates: [], conflicts: 0, frozen }
    }
    const matches = compareAll(batch, record, candidates)
    const fresh = withoutRows(rows, matches)
    const frozen = fresh.length > 0 ? write(project, encode(batch, fresh), fresh, buildsOf(fresh, builds)) : []
    const duplicates = [...matches.keys()].sort((a, b) => a - b)
    const conflicts = duplicates.filter((index) => matches.get(index) === 'conflict').length
    return { duplicates, conflicts, frozen }
  }

  /** Whether the batch is stored already, found by its first event: a retry has the same bytes. */
  function isRetry(project: number, record: Buffer, candidates: readonly Candidate[]): boolean {
    const earlier = createReader(log)
    return candidates.some(({ position }) => {
      const { bytes } = earlier(position.sequence)
      return payloadOf(bytes).equals(payloadOf(record)) && verifyRecord(bytes, position.sequence).project === project
    })
  }

  /**
   * The events of a record that are stored, by index.
   *
   * @throws {IngestError} `store-damaged`: a damaged record must not make its events unknown
   */
  function compareAll(batch: BatchToAppend, record: Buffer, candidates: readonly Candidate[]): Map<number, Match> {
    const earlier = createReader(log)
    const matches = new Map<number, Match>()
    // so that each earlier record is read once
    const ordered = candidates.toSorted((a, b) => a.position.sequence - b.position.sequence)
    for (const { queryIndex, position } of ordered) {
      if (matches.has(queryIndex)) continue
      const { sequence, index } = position
      const match = compare(
        batch.project,
        eventAt(record, queryIndex),
        idAt(batch, queryIndex),
        earlier(sequence).verified(),
        index,
      )
      if (match) matches.set(queryIndex, match)
    }
    return matches
  }

  /** Returns the builds that it froze. */
  function write(project: number, record: Buffer, rows: Uint32Array, builds: readonly string[]): string[] {
    const { count, receivedAt } = readUnverified(record)
    const { events, batches, bytes } = totalsOf(project)
    const sequence = last.sequence + 1
    const key = sequenceKey(sequence)
    lastAt = Math.max(lastAt, Math.min(receivedAt, latestAt))
    sealRecord(record, { sequence, project, ordinal: batches + 1 }, lastAt)
    last = { sequence, checksum: readChecksum(record) }
    // appended, as a full page is then not split, which would leave copies of its records behind. The types of lmdb call
    // the result void; it is false for a key that is not after all others
    const isStored = log.putSync(key, record, { append: true }) as unknown
    if (isStored !== true) {
      throw new IngestError('internal-error', `Record ${sequence} is not after the end of the log.`)
    }
    projectLog.put(projectKey(project, key), nothing)
    ids.addRecord(sequence, fingerprintsIn(record), count)
    const payloadBytes = hasTombstones(rows)
      ? countedBytes(decodeRecord(record, sequence).events)
      : payloadOf(record).length
    changedTotals.set(project, { events: events + count, batches: batches + 1, bytes: bytes + payloadBytes })
    return builds.filter((buildId) => freeze(project, buildId, lastAt))
  }

  function totalsOf(project: number): Totals {
    return changedTotals.get(project) ?? eventLog.totals(project)
  }

  /** Returns whether the build was not frozen before. */
  function freeze(project: number, buildId: string, at: number): boolean {
    const key = projectKey(project, Buffer.from(buildId))
    if (freezes.doesExist(key)) return false
    const value = Buffer.allocUnsafe(8)
    value.writeDoubleLE(at)
    freezes.put(key, value)
    onFreeze(project, buildId)
    return true
  }

  /** Takes in the records that other processes have appended. */
  function catchUp(): LogEnd & { receivedAt: number } {
    const end = readLogEnd(eventLog)
    checkSeen(eventLog, seen, end)
    ids.catchUp(end.sequence)
    see(end)
    return end
  }

  function see({ sequence, checksum }: LogEnd): void {
    seen = { sequence, checksum }
    onSeen(sequence)
  }

  return {
    begin() {
      changedTotals.clear()
      const end = catchUp()
      last = end
      latestAt = Date.now() + aheadMsMax
      lastAt = end.receivedAt
    },

    append,

    reduceBytes(project, bytes) {
      const totals = totalsOf(project)
      changedTotals.set(project, { ...totals, bytes: totals.bytes - bytes })
    },

    end() {
      for (const [project, totals] of changedTotals) eventLog.putTotals(project, totals)
    },

    committed: () => see(last),

    locate(project, eventIds, fingerprints) {
      catchUp()
      const earlier = createReader(log)
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
  /** Not verified; empty if the record is missing. */
  bytes: Buffer
  /** @throws {IngestError} `store-damaged` */
  verified(): LogRecord
}

/** Reads a record, which is valid until the next read of any table. */
type Reader = (sequence: number) => EarlierRecord

/** Keeps the last record, as the next event is often in the same one. */
function createReader(log: Table): Reader {
  let last: EarlierRecord | undefined
  let lastSequence = 0
  return (sequence) => {
    if (last && sequence === lastSequence) return last
    const bytes = log.getBinaryFast(sequenceKey(sequence))
    // lmdb returns a buffer that is larger than it says
    last = earlierRecord(bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), sequence)
    lastSequence = sequence
    return last
  }
}

function earlierRecord(bytes: Buffer | undefined, sequence: number): EarlierRecord {
  let verified: LogRecord | undefined
  return {
    bytes: bytes ?? nothing,
    verified() {
      verified ??= decodeRecord(bytes, sequence)
      return verified
    },
  }
}

/** The JSON string of the id of an event. */
function idAt({ body, rows }: BatchToAppend, index: number): Buffer {
  const row = index * wordsPerEvent
  const [start, end] = [rows[row + column.idStart] as number, rows[row + column.idEnd] as number]
  return Buffer.from(body.buffer, body.byteOffset + start, end - start)
}

/** The rows without those at `indexes`. */
function withoutRows(rows: Uint32Array, indexes: ReadonlyMap<number, unknown>): Uint32Array {
  const left = new Uint32Array(rows.length - indexes.size * wordsPerEvent)
  let to = 0
  for (let at = 0; at < rows.length; at += wordsPerEvent) {
    if (indexes.has(at / wordsPerEvent)) continue
    left.set(rows.subarray(at, at + wordsPerEvent), to)
    to += wordsPerEvent
  }
  return left
}

/** Whether some events are only their id. */
function hasTombstones(rows: Uint32Array): boolean {
  for (let at = 0; at < rows.length; at += wordsPerEvent) {
    if (rows[at + column.start] === rows[at + column.idStart]) return true
  }
  return false
}

/** The builds of a batch that the events of `rows` reference. */
function buildsOf(rows: Uint32Array, builds: readonly string[]): string[] {
  const indexes = new Set<number>()
  for (let at = column.build; at < rows.length; at += wordsPerEvent) indexes.add(rows[at] as number)
  return builds.filter((_, index) => indexes.has(index))
}

/** How an event compares with the stored one of the same id. */
type Match = 'same' | 'conflict'

/**
 * Compares an event, with the JSON string of its id, with the one at an index of an earlier record; undefined if that has
 * another id or project.
 */
function compare(
  project: number,
  event: Buffer,
  eventId: Buffer,
  earlier: LogRecord,
  index: number,
): Match | undefined {
  const stored = earlier.project === project ? earlier.events[index] : undefined
  if (!stored) return undefined
  if (stored.equals(event)) return 'same'
  return hasEventId(stored, eventId) ? differ(stored, event) : undefined
}

/** What two events of one id with other bytes are. */
function differ(stored: Buffer, event: Buffer): Match {
  return isTombstone(stored) || isTombstone(event) ? 'same' : 'conflict'
}

function hasEventId(event: Buffer, eventId: Buffer): boolean {
  try {
    const stored = idBytes(event) ?? nothing
    // one may have escapes where the other has none
    return stored.equals(eventId) || JSON.parse(stored.toString()) === JSON.parse(eventId.toString())
  } catch {
    // damaged
    return false
  }
}
