import { aheadMsMax, IngestError, type Totals } from '@ingest/core'
import { column, wordsPerEvent } from '@ingest/core/internal'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import type { IdIndex } from '../ids/id-index.ts'
import type { EventLog, EventLogTables } from '../log/event-log.ts'
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
import { addFrozenBuild } from '../tables/builds.ts'
import { createDuplicateFinder, type SearchedBatch } from './find-duplicates.ts'

/** What an append did. Mostly it stores all or nothing and freezes no build, which makes a short message. */
export type Appended = 'all' | 'none' | { duplicates: number[]; conflicts: number; frozen: string[] }

/** A batch in which no id occurs twice. */
export interface BatchToAppend extends SearchedBatch {
  builds: readonly string[]
  receivedAt: number
}

/** A batch of a project that has no number yet, with hashes in place of fingerprints. */
export type FirstBatch = Omit<BatchToAppend, 'project'> & { projectId: string }

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
    // appended, as a full page is then not split. The types of lmdb call the result void; it is false for a key that is
    // not after all others
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
    addFrozenBuild(newestBuilds, project, buildId, at)
    return true
  }

  /** Takes in the records that other processes have appended. */
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
