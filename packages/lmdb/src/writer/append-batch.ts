import { aheadMsMax, IngestError } from '@ingest/core'
import { column, wordsPerEvent } from '@ingest/core/internal'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import type { IdIndex } from '../ids/id-index.ts'
import type { EventLog, EventLogTables, StoredTotals } from '../log/event-log.ts'
import { checkSeen, type LogEnd, readLogEnd } from '../log/log-end.ts'
import type { Position } from '../log/record.ts'
import {
  countedBytes,
  decodeRecord,
  encodeRecord,
  fingerprintsIn,
  payloadOf,
  readChecksum,
  readUnverified,
  recordBytes,
  sealRecord,
} from '../log/record.ts'
import { addFrozenBuild } from '../maps/builds.ts'
import { createDuplicateFinder, type SearchedBatch } from './find-duplicates.ts'

/** The result of an append. Most appends store all or nothing and freeze no build, which makes a short message. */
export type Appended = 'all' | 'none' | { duplicates: number[]; conflicts: number; frozen: string[] }

/** A batch in which no id occurs twice. */
export interface BatchToAppend extends SearchedBatch {
  builds: readonly string[]
  receivedAt: number
}

/** The first batch of a project, which has no number yet; it has hashes in place of fingerprints. */
export type FirstBatch = Omit<BatchToAppend, 'project'> & { projectId: string }

/** Appends batches to the log, and locates events in it. Projects are identified by number. */
export interface Appender {
  /**
   * Finds the end of the log, because other processes append too. Called first in each write transaction.
   *
   * @throws {IngestError} `store-failed` if the log has lost a record that this process has seen
   */
  begin(): void
  /** Stores the new events of a batch. Only inside a write transaction. */
  append(batch: BatchToAppend): Appended
  /** Subtracts the bytes of erased events from the totals of their project. Only inside a write transaction. */
  reduceBytes(project: number, bytes: number): void
  /** Writes the changed totals. Called last in each write transaction. */
  end(): void
  /** Called when the transaction is committed. */
  committed(): void
  /**
   * The positions of the events with these ids.
   *
   * @throws {IngestError} the codes of {@link begin}
   */
  locate(project: number, eventIds: readonly string[], fingerprints: Uint32Array): (Position | undefined)[]
}

/** @param onSeen called with the number of the last record of the log, once it is known to be committed */
export function createAppender(
  tables: EventLogTables,
  eventLog: EventLog,
  ids: IdIndex,
  onSeen: (sequence: number) => void,
): Appender {
  const { log, projectLog, freezes, newestBuilds } = tables
  const { isRetry, findMatches, locate } = createDuplicateFinder(log, ids)
  /** The last committed record that this process has seen. */
  let seen: LogEnd = readLogEnd(eventLog)
  /** The last record as this transaction sees it. */
  let last = seen
  /** When the last record was received. Times never decrease, because readers search by time. */
  let lastAt = Number.NEGATIVE_INFINITY
  /** The latest time that this transaction may give to a record. */
  let latestAt = Number.NEGATIVE_INFINITY
  /** The totals that this transaction has changed, by project. */
  const changedTotals = new Map<number, StoredTotals>()

  /** Memory that all records are encoded into, one after another. */
  let memory = Buffer.allocUnsafeSlow(0)

  function encode({ body, receivedAt }: BatchToAppend, rows: Uint32Array): Buffer {
    const bytes = recordBytes(rows)
    if (memory.length < bytes) memory = Buffer.allocUnsafeSlow(bytes)
    return encodeRecord(body, rows, receivedAt, memory)
  }

  function append(batch: BatchToAppend): Appended {
    const { project, rows, builds } = batch
    const record = encode(batch, rows)
    if (isRetry(project, record)) return 'none'
    const matches = findMatches(batch, record)
    if (matches.size === 0) {
      const frozen = write(project, record, rows, builds)
      return frozen.length === 0 ? 'all' : { duplicates: [], conflicts: 0, frozen }
    }
    const fresh = withoutRows(rows, matches)
    const frozen = fresh.length > 0 ? write(project, encode(batch, fresh), fresh, buildsOf(fresh, builds)) : []
    const duplicates = [...matches.keys()].sort((a, b) => a - b)
    const conflicts = duplicates.filter((index) => matches.get(index) === 'conflict').length
    return { duplicates, conflicts, frozen }
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
    // append mode does not split a full page; lmdb then returns false, which its types lack, if the key is not after
    // all others
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

  function totalsOf(project: number): StoredTotals {
    return changedTotals.get(project) ?? eventLog.totals(project)
  }

  /** Returns whether the build was open before. */
  function freeze(project: number, buildId: string, at: number): boolean {
    const key = projectKey(project, Buffer.from(buildId))
    if (freezes.doesExist(key)) return false
    const value = Buffer.allocUnsafe(8)
    value.writeDoubleLE(at)
    freezes.put(key, value)
    addFrozenBuild(newestBuilds, project, buildId, at)
    return true
  }

  /** Takes into account the records that other processes have appended. */
  function catchUp(): LogEnd & { receivedAt: number } {
    ids.refresh()
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
      return locate(project, eventIds, fingerprints)
    },
  }
}

const nothing = Buffer.alloc(0)

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

/** Whether some events are tombstones. */
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
