import type { RecentEvents } from '@ingest/core'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import {
  checkListed,
  type EventLog,
  type EventLogTables,
  type ListedRecord,
  type SlicedReads,
  unlistedRecords,
} from './event-log.ts'
import { type RecordHeader, storedOrdinal } from './record.ts'

/** The most records that are read in one turn of the event loop. */
const turnRecordsMax = 64

/**
 * When the first and the last record of a project were received.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readActivity(log: EventLog, project: number): { firstAt: number; lastAt: number } | undefined {
  const last = log.last(project)
  const [first] = log.records(project, 0, 1)
  if (!first || !last) return undefined
  const header = log.header(first.sequence)
  checkListed(header, project, first)
  return { firstAt: header.receivedAt, lastAt: log.header(last.position.sequence).receivedAt }
}

/**
 * Counts the events of the newest records of a project, by their headers.
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
    // in reverse, the start is the later end, and is in the range
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
      return headersFrom(next, Math.min(left, turnRecordsMax))
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
