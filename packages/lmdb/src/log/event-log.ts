import type { Totals } from '@ingest/core'
import type { Rows, Table } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { decodeRecord, type Position, readChecksum, readHeader } from './record.ts'

export interface EventLogTables {
  /** sequence → record */
  log: Table
  /** project, sequence → nothing: the records of a project */
  projectLog: Table
  /** project, buildId → when the build froze */
  freezes: Table
  /** project → its totals */
  totals: Table
  /** project → its first record that an expiry has not erased */
  expiries: Table
  /**
   * What a purge has left to do: a count of erasures, and the records in leaf pages that an erasure has rewritten, by
   * sequence.
   */
  unpurged: Table
}

export function openEventLogTables(table: (name: string) => Table): EventLogTables {
  return {
    log: table('log'),
    projectLog: table('project-log'),
    freezes: table('freezes'),
    totals: table('totals'),
    expiries: table('expiries'),
    unpurged: table('unpurged'),
  }
}

/** How a long read is split into steps. */
export interface SlicedReads {
  /** Runs `read` on the latest snapshot. */
  readSnapshot<T>(read: () => T): T
  /** Resolves when the next step may begin. */
  nextStep(): Promise<unknown>
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

/** Reads the log of batches, and the tables of frozen builds and totals. Projects are identified by number. */
export interface EventLog {
  /** The number of the last record, 0 for an empty log. */
  lastSequence(): number
  /** When this record was received, in milliseconds since 1970. Never decreases along the log. */
  receivedAt(sequence: number): number
  /** The first record received at or after this time; the number of the next record if there is none. */
  firstSince(receivedAt: number): number
  /** The project's last event, if it has any. */
  last(project: number): Pick<LoggedEvent, 'position' | 'checksum'> | undefined
  /** The checksum of the record of the project's event at this position; undefined if there is none. */
  checksumAt(project: number, position: Position): number | undefined
  /** The sequence numbers of up to `limit` of the project's records, from `sequence` on. */
  sequences(project: number, sequence: number, limit: number): number[]
  /**
   * The events of one record.
   *
   * @throws {IngestError} `store-damaged`
   */
  events(sequence: number): LoggedEvent[]
  frozenAt(project: number, buildId: string): number | undefined
  /** All events of the project in records before this one were erased. */
  expiredBefore(project: number): number
  totals(project: number): Totals
  /** Only inside a write transaction. */
  putTotals(project: number, totals: Totals): void
}

export function createEventLog({ log, projectLog, freezes, totals, expiries }: EventLogTables): EventLog {
  function lastSequence(): number {
    const [last] = [...log.getKeys({ reverse: true, limit: 1 })]
    return last ? readSequence(last) : 0
  }

  function receivedAtIn(sequence: number): number {
    return readHeader(log.getBinaryFast(sequenceKey(sequence)), sequence).receivedAt
  }

  return {
    lastSequence,
    receivedAt: receivedAtIn,

    firstSince(receivedAt) {
      // a binary search: the log has no gaps, and its times never decrease
      let [first, behind] = [1, lastSequence() + 1]
      while (first < behind) {
        const middle = Math.floor((first + behind) / 2)
        if (receivedAtIn(middle) < receivedAt) first = middle + 1
        else behind = middle
      }
      return first
    },

    last(project) {
      const range = { start: projectKey(project + 1), end: projectKey(project), limit: 1, reverse: true }
      const [last] = Array.from(projectLog.getKeys(range), readSequence)
      if (last === undefined) return undefined
      const bytes = log.getBinary(sequenceKey(last))
      const { events } = decodeRecord(bytes, last)
      return { position: { sequence: last, index: events.length - 1 }, checksum: readChecksum(bytes) }
    },

    checksumAt(project, { sequence, index }) {
      if (!projectLog.doesExist(projectKey(project, sequenceKey(sequence)))) return undefined
      const bytes = log.getBinaryFast(sequenceKey(sequence))
      return index < readHeader(bytes, sequence).count ? readChecksum(bytes) : undefined
    },

    sequences(project, sequence, limit) {
      const range = { start: projectKey(project, sequenceKey(sequence)), end: projectKey(project + 1), limit }
      return Array.from(projectLog.getKeys(range), readSequence)
    },

    events(sequence) {
      const record = log.getBinary(sequenceKey(sequence))
      const { receivedAt, events } = decodeRecord(record, sequence)
      const checksum = readChecksum(record)
      return events.map((bytes, index) => ({
        position: { sequence, index },
        checksum,
        receivedAt,
        bytes,
      }))
    },

    frozenAt: (project, buildId) => readFrozenAt(freezes, project, buildId),

    expiredBefore: (project) => expiries.getBinary(projectKey(project))?.readDoubleLE() ?? 0,

    totals(project) {
      const value = totals.getBinary(projectKey(project))
      if (!value) return { events: 0, batches: 0, bytes: 0 }
      return { events: value.readDoubleLE(0), batches: value.readDoubleLE(8), bytes: value.readDoubleLE(16) }
    },

    putTotals(project, { events, batches, bytes }) {
      const value = Buffer.allocUnsafe(24)
      value.writeDoubleLE(events, 0)
      value.writeDoubleLE(batches, 8)
      value.writeDoubleLE(bytes, 16)
      totals.put(projectKey(project), value)
    },
  }
}

/** When a build froze, in milliseconds since 1970, from the table of freezes. */
export function readFrozenAt(freezes: Rows, project: number, buildId: string): number | undefined {
  return freezes.getBinary(projectKey(project, Buffer.from(buildId)))?.readDoubleLE()
}
