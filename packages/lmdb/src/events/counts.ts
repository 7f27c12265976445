import type { EventsAfter, RecentEvents } from '@ingest/core'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import {
  checkListed,
  type EventLog,
  type EventLogTables,
  type ListedRecord,
  unlistedRecords,
} from '../log/event-log.ts'
import { type Position, type RecordHeader, storedOrdinal } from '../log/record.ts'
import { type SlicedReads, stepLookupsMax } from '../log/snapshot-reader.ts'

/**
 * When the first and the last record of a project were received.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readTimes(log: EventLog, project: number): { firstAt: number; lastAt: number } | undefined {
  const last = log.last(project)
  const [first] = log.records(project, 0, 1)
  if (!first || !last) return undefined
  const header = log.header(first.sequence)
  checkListed(header, project, first)
  return { firstAt: header.receivedAt, lastAt: log.header(last.position.sequence).receivedAt }
}

/**
 * Counts the events of the newest records of a project, from their headers.
 *
 * @throws {IngestError} `store-damaged`
 */
export async function countSince(
  { projectLog }: Pick<EventLogTables, 'projectLog'>,
  log: EventLog,
  { readSnapshot, nextStep }: SlicedReads,
  { project, since, batchesMax }: { project: number; since: number; batchesMax: number },
): Promise<RecentEvents> {
  /** The headers of the next records, newest first. */
  function headersFrom({ sequence, ordinal }: ListedRecord, limit: number): (RecordHeader & ListedRecord)[] {
    // with `reverse`, the start is the later end, and is included
    const start = projectKey(project, sequenceKey(sequence))
    const keys = projectLog.getKeys({ start, end: projectKey(project), reverse: true, limit })
    const headers = Array.from(keys, readSequence).map((sequence, i) => {
      const header = log.header(sequence)
      checkListed(header, project, { sequence, ordinal: storedOrdinal(ordinal - i) })
      return { sequence, ...header }
    })
    const left = storedOrdinal(ordinal - headers.length)
    if (headers.length < limit && left > 0)
      throw unlistedRecords(`before record ${headers.at(-1)?.sequence ?? sequence}`)
    return headers
  }

  const recent = { events: 0, since }
  let next: ListedRecord | undefined
  for (let left = batchesMax; left > 0; ) {
    const headers = readSnapshot(() => {
      next ??= { sequence: Number.MAX_SAFE_INTEGER, ordinal: log.totals(project).batches }
      return headersFrom(next, Math.min(left, stepLookupsMax))
    })
    for (const { receivedAt, count } of headers) {
      if (receivedAt < since) return recent
      recent.events += count
      if (--left === 0) recent.since = receivedAt
    }
    const oldest = headers.at(-1)
    if (!oldest) break
    next = { sequence: oldest.sequence - 1, ordinal: oldest.ordinal - 1 }
    await nextStep()
  }
  return recent
}

/**
 * Counts the events of the oldest records of a project after a position, from their headers.
 *
 * @throws {IngestError} `store-damaged`
 */
export async function countAfter(
  log: EventLog,
  { readSnapshot, nextStep }: SlicedReads,
  { project, after, batchesMax }: { project: number; after: Position; batchesMax: number },
): Promise<EventsAfter> {
  function unreadIn(record: ListedRecord) {
    const header = log.header(record.sequence)
    checkListed(header, project, record)
    const read = record.sequence === after.sequence ? after.index + 1 : 0
    return { ...record, receivedAt: header.receivedAt, events: header.count - read }
  }

  // other consumers may be counted at the same time
  await nextStep()
  let next = after.sequence
  let left = batchesMax
  const counted: EventsAfter = { events: 0, batchesLeft: 0 }
  for (;;) {
    const [records, batches] = readSnapshot(() => {
      next = Math.max(next, log.expiredBefore(project))
      return [log.records(project, next, stepLookupsMax).map(unreadIn), log.totals(project).batches] as const
    })
    for (const { ordinal, receivedAt, events } of records) {
      if (events === 0) continue
      counted.firstAt ??= receivedAt
      if (left-- === 0) return { ...counted, batchesLeft: storedOrdinal(batches - ordinal + 1) }
      counted.events += events
    }
    const newest = records.at(-1)
    if (!newest || records.length < stepLookupsMax) return counted
    next = newest.sequence + 1
    await nextStep()
  }
}
