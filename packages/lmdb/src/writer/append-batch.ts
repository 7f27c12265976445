import type { AppendResult } from '@ingest/core'
import type { Table } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import type { IdIndex } from '../ids/id-index.ts'
import type { EventLog, EventLogTables } from '../log/event-log.ts'
import type { Position } from '../log/record.ts'
import {
  decodeRecord,
  encodePayload,
  encodeRecord,
  parseEventId,
  readFingerprints,
  readHeader,
  readUnverified,
  sealRecord,
  splitEvents,
} from '../log/record.ts'

/** What an append stored; mostly all or nothing, which is a short message to another thread. */
export type Appended = 'all' | 'none' | AppendResult

/** Appends batches to the log, and locates events in it. Projects are identified by number. */
export interface Appender {
  /** Finds the end of the log, to which other processes append too. Call it first in each write transaction. */
  begin(): void
  /**
   * Stores the new events of a batch, given as the record of the whole batch; no id occurs twice in it.
   * `builds` are those that the events reference. Only inside a write transaction.
   */
  append(project: number, batch: Buffer, builds: readonly string[]): Appended
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
  const { log, projectLog, freezes, totals } = tables
  let nextSequence = 0
  /** When the last record was received. Times never decrease, because readers search by time. */
  let lastAt = Number.NEGATIVE_INFINITY

  function append(project: number, batch: Buffer, builds: readonly string[]): Appended {
    const { count, receivedAt, payload } = readUnverified(batch)
    const fingerprints = readFingerprints(batch, nextSequence)
    const earlier = readerOf(log)
    // a retried batch has the same bytes, so its first event identifies all of them
    const again = ids.search(fingerprints, Math.min(1, count)).some(({ position }) => {
      const record = earlier(position.sequence)
      return record.project === project && record.payload.equals(payload)
    })
    if (again) return 'none'
    const candidates = ids.search(fingerprints, count)
    if (candidates.length === 0) {
      write(project, batch, fingerprints, builds)
      return 'all'
    }
    const events = splitEvents(payload)
    const eventIds: string[] = []
    const eventIdAt = (of: number) => {
      eventIds[of] ??= parseEventId(events[of] as Buffer)
      return eventIds[of]
    }
    const found: (Match | undefined)[] = []
    for (const { queryIndex: of, position } of candidates) {
      const bytes = found[of] ? undefined : eventAt(project, position, earlier)
      if (bytes?.equals(events[of] as Buffer)) found[of] = 'same'
      else if (bytes && parseEventId(bytes) === eventIdAt(of)) found[of] = 'conflict'
    }
    const stored = events.map((_, i) => found[i] === undefined)
    const fresh = events.filter((_, i) => stored[i])
    if (fresh.length > 0) {
      // the fingerprints of those that are stored, two words each
      const own = fingerprints.filter((_, word) => stored[word >> 1])
      write(project, encodeRecord(receivedAt, own, encodePayload(fresh)), own, buildsOf(fresh))
    }
    return { stored, conflicts: found.filter((match) => match === 'conflict').length }
  }

  function write(project: number, record: Buffer, fingerprints: Uint32Array, builds: readonly string[]): void {
    const { count, receivedAt, payload } = readUnverified(record)
    const sequence = nextSequence++
    const key = sequenceKey(sequence)
    lastAt = Math.max(lastAt, receivedAt)
    sealRecord(record, project, lastAt)
    log.put(key, record)
    projectLog.put(projectKey(project, key), nothing)
    ids.addRecord(sequence, fingerprints, count)
    for (const buildId of builds) freeze(project, buildId, lastAt)
    const { events, batches, bytes } = eventLog.totals(project)
    const after = Buffer.allocUnsafe(24)
    after.writeDoubleLE(events + count, 0)
    after.writeDoubleLE(batches + 1, 8)
    after.writeDoubleLE(bytes + payload.length, 16)
    totals.put(projectKey(project), after)
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
      const last = eventLog.lastSequence()
      ids.catchUp(last)
      nextSequence = last + 1
      lastAt = last === 0 ? Number.NEGATIVE_INFINITY : eventLog.receivedAt(last)
    },

    append,

    locate(project, eventIds, fingerprints) {
      ids.catchUp(eventLog.lastSequence())
      const earlier = readerOf(log)
      const positions: (Position | undefined)[] = eventIds.map(() => undefined)
      for (const { queryIndex: of, position } of ids.search(fingerprints, eventIds.length)) {
        const bytes = eventAt(project, position, earlier)
        if (bytes && parseEventId(bytes) === eventIds[of]) positions[of] = position
      }
      return positions
    },
  }
}

const nothing = Buffer.alloc(0)

interface EarlierRecord {
  project: number
  payload: Buffer
  /** The exact bytes of each event. */
  events(): Buffer[]
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
  readHeader(bytes, sequence)
  const { project, payload } = readUnverified(bytes as Buffer)
  let events: Buffer[] | undefined
  return {
    project,
    payload,
    events() {
      // a damaged record cannot be parsed
      events ??= splitEvents(decodeRecord(bytes as Buffer, sequence).payload)
      return events
    },
  }
}

/**
 * The event at a position; undefined if it is another project's.
 *
 * @throws {IngestError} `store-damaged`: a damaged record must not make its events unknown.
 */
function eventAt(project: number, { sequence, index }: Position, earlier: Reader): Buffer | undefined {
  const record = earlier(sequence)
  // checked as a whole, because the number of the project may be damaged
  const events = record.events()
  return record.project === project ? events[index] : undefined
}

/** How an event compares with the stored one of the same id. */
type Match = 'same' | 'conflict'

function buildsOf(events: readonly Buffer[]): string[] {
  const builds = events.map((bytes) => JSON.parse(bytes.toString()).buildId)
  return [...new Set(builds)].filter((buildId) => typeof buildId === 'string')
}
