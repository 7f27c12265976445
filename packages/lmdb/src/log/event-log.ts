import { crc32 } from 'node:zlib'
import { IngestError, type Totals } from '@ingest/core'
import type { Rows, Table } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { decodeRecord, type Position, type RecordHeader, readHeader, storedOrdinal } from './record.ts'

/*
 * The log is the truth of a store: one record for each batch that stored anything, in the order of commits.
 *
 * - record: a header with checksums, a fingerprint for each event, and the exact bytes of the events (`record.ts`)
 * - sequence: the number of a record in the log, from 1 and without gaps
 * - ordinal: the number of a record among those of its project, by which a reader notices a missing one
 * - project list: the sequences of the records of a project, in the table `project-log`
 * - tombstone: the id of an erased event in place of its bytes; positions do not change
 * - log end: the last record that this process has seen; if it disappears, commits were lost (`log-end.ts`)
 * - snapshot reader: reads on the newest snapshot, in steps that share the event loop (`snapshot-reader.ts`)
 *
 * Start with `createEventLog` below. `writer/append-batch.ts` writes records, `events/event-store.ts` serves them.
 */

/** The totals of a project in the table `totals`. */
export type StoredTotals = Pick<Totals, 'events' | 'batches' | 'bytes'>

export interface EventLogTables {
  log: Table
  projectLog: Table
  freezes: Table
  newestBuilds: Table
  totals: Table
  expiries: Table
}

export function openEventLogTables(table: (name: TableName) => Table): EventLogTables {
  return {
    log: table('log'),
    projectLog: table('project-log'),
    freezes: table('freezes'),
    newestBuilds: table('newest-builds'),
    totals: table('totals'),
    expiries: table('expiries'),
  }
}

/** An event in the log. */
export interface LoggedEvent {
  position: Position
  /** The checksum of its record. */
  checksum: number
  receivedAt: number
  /** The JSON string of its id if the event was erased. */
  bytes: Buffer
}

/** A record in the list of its project. */
export interface ListedRecord {
  sequence: number
  /** The ordinal in the record, if no record is missing from the list before it. */
  ordinal: number
}

/** Reads the log of batches, and the tables of freezes and totals. Projects are identified by number. */
export type EventLog = ReturnType<typeof createEventLog>

export function createEventLog({ log, projectLog, freezes, totals, expiries }: EventLogTables) {
  const counters = createTotals(totals)

  function header(sequence: number): RecordHeader {
    return readHeader(log.getBinaryFast(sequenceKey(sequence)), sequence)
  }

  return {
    /** The number of the last record, 0 for an empty log. */
    lastSequence: () => lastSequenceIn(log),
    /**
     * The header of a record. Its `receivedAt` never decreases along the log.
     *
     * @throws {IngestError} `store-damaged`
     */
    header,

    /** The first record that was received at or after this time; the number of the next record if there is none. */
    firstSince(receivedAt: number): number {
      // a binary search: the log has no gaps, and its times never decrease
      let [first, behind] = [1, lastSequenceIn(log) + 1]
      while (first < behind) {
        const middle = Math.floor((first + behind) / 2)
        if (header(middle).receivedAt < receivedAt) first = middle + 1
        else behind = middle
      }
      return first
    },

    /**
     * The events of a record of the project.
     *
     * @throws {IngestError} `store-damaged`, also for a record of another project or with another ordinal
     */
    events(project: number, { sequence, ordinal }: { sequence: number; ordinal?: number }): LoggedEvent[] {
      const { receivedAt, checksum, events, ...record } = decodeRecord(log.getBinary(sequenceKey(sequence)), sequence)
      checkListed(record, project, { sequence, ordinal: ordinal ?? record.ordinal })
      return events.map((bytes, index) => ({ position: { sequence, index }, checksum, receivedAt, bytes }))
    },

    frozenAt: (project: number, buildId: string) => readFrozenAt(freezes, project, buildId),
    ...createProjectLists(projectLog, header, (project) => counters.totals(project).batches),
    ...counters,
    ...createExpiries(expiries),
  }
}

/** The lists of records of all projects. */
function createProjectLists(
  projectLog: Table,
  header: (sequence: number) => RecordHeader,
  batchesOf: (project: number) => number,
) {
  /** The project's last record before this one. */
  function lastBefore(project: number, sequence: number): ListedRecord | undefined {
    if (sequence < 1) return undefined
    // with `reverse`, the start is the later end, and is included
    const start = projectKey(project, sequenceKey(sequence - 1))
    const [key] = projectLog.getKeys({ start, end: projectKey(project), limit: 1, reverse: true })
    return key && { sequence: readSequence(key), ordinal: header(readSequence(key)).ordinal }
  }

  function checkEnd(project: number, lastOrdinal: number): void {
    if (storedOrdinal(lastOrdinal) !== storedOrdinal(batchesOf(project)))
      throw unlistedRecords(`after record ${lastOrdinal} of the project`)
  }

  return {
    /**
     * The project's last event, if it has any.
     *
     * @throws {IngestError} `store-damaged`, also if the list of its records lacks the last one
     */
    last(project: number): Pick<LoggedEvent, 'position' | 'checksum'> | undefined {
      const last = lastBefore(project, afterAll)
      checkEnd(project, last?.ordinal ?? 0)
      if (!last) return undefined
      const { count, checksum } = header(last.sequence)
      return { position: { sequence: last.sequence, index: count - 1 }, checksum }
    },

    /** The checksum of the record that holds the project's event at this position; undefined if there is none. */
    checksumAt(project: number, { sequence, index }: Position): number | undefined {
      if (!projectLog.doesExist(projectKey(project, sequenceKey(sequence)))) return undefined
      const { count, checksum } = header(sequence)
      return index < count ? checksum : undefined
    },

    /**
     * Up to `limit` of the project's records, from `sequence` on.
     *
     * @throws {IngestError} `store-damaged` if the list lacks the last records; {@link checkListed} finds other gaps
     */
    records(project: number, sequence: number, limit: number): ListedRecord[] {
      const range = { start: projectKey(project, sequenceKey(sequence)), end: projectKey(project + 1), limit }
      const before = lastBefore(project, sequence)?.ordinal ?? 0
      const records = Array.from(projectLog.getKeys(range), (key, i) => ({
        sequence: readSequence(key),
        ordinal: storedOrdinal(before + i + 1),
      }))
      if (records.length < limit) checkEnd(project, before + records.length)
      return records
    },
  }
}

function createTotals(table: Table) {
  return {
    totals(project: number): StoredTotals {
      const value = table.getBinary(projectKey(project))
      if (!value) return { events: 0, batches: 0, bytes: 0 }
      return { events: value.readDoubleLE(0), batches: value.readDoubleLE(8), bytes: value.readDoubleLE(16) }
    },

    /** Only inside a write transaction. */
    putTotals(project: number, { events, batches, bytes }: StoredTotals): void {
      const value = Buffer.allocUnsafe(24)
      value.writeDoubleLE(events, 0)
      value.writeDoubleLE(batches, 8)
      value.writeDoubleLE(bytes, 16)
      table.put(projectKey(project), value)
    },
  }
}

function createExpiries(table: Table) {
  return {
    /**
     * The first record that an expiry has not erased: all events of the project before it are erased.
     *
     * @throws {IngestError} `store-damaged`
     */
    expiredBefore(project: number): number {
      const value = table.getBinary(projectKey(project))
      if (!value) return 0
      const sequence = value.length === expiryBytes ? value.readDoubleLE() : 0
      if (encodeExpiry(project, sequence).equals(value)) return sequence
      throw new IngestError('store-damaged', `The end of the expired events of a project is damaged: ${remedy}`)
    },

    /** Only inside a write transaction. */
    putExpiredBefore(project: number, sequence: number): void {
      table.put(projectKey(project), encodeExpiry(project, sequence))
    },
  }
}

/** The number of the last record of a log, 0 for an empty one. */
export function lastSequenceIn(log: Table): number {
  const [last] = [...log.getKeys({ reverse: true, limit: 1 })]
  return last ? readSequence(last) : 0
}

const expiryBytes = 12

function encodeExpiry(project: number, sequence: number): Buffer {
  const value = Buffer.alloc(expiryBytes)
  value.writeDoubleLE(sequence)
  value.writeUInt32LE(crc32(value.subarray(0, 8), crc32(projectKey(project))), 8)
  return value
}

/** Greater than any sequence number. */
const afterAll = Number.MAX_SAFE_INTEGER

/**
 * Checks that a record is the one that the list of a project's records names: of this project, with no record missing
 * from the list before it.
 *
 * @throws {IngestError} `store-damaged`
 */
export function checkListed(
  record: Pick<RecordHeader, 'project' | 'ordinal'>,
  project: number,
  { sequence, ordinal }: ListedRecord,
): void {
  if (record.project !== project) {
    const message = `Record ${sequence} of the log is of another project than the list that names it: ${remedy}`
    throw new IngestError('store-damaged', message)
  }
  if (record.ordinal !== ordinal) throw unlistedRecords(`before record ${sequence}`)
}

const remedy = 'save the store with `ingest repair`.'

/** The `store-damaged` of a project's list that lacks records. */
export function unlistedRecords(where: string): IngestError {
  return new IngestError('store-damaged', `The list of a project's records lacks records ${where}: ${remedy}`)
}

/** When a build froze, in milliseconds since 1970, from the table of freezes. */
export function readFrozenAt(freezes: Rows, project: number, buildId: string): number | undefined {
  return freezes.getBinary(projectKey(project, Buffer.from(buildId)))?.readDoubleLE()
}
