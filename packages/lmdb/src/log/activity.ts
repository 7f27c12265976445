import type { RecentEvents } from '@ingest/core'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { EventLogTables, SlicedReads } from './event-log.ts'
import { readHeader } from './record.ts'

type LogTables = Pick<EventLogTables, 'log' | 'projectLog'>

/** The most records that are read in one turn of the event loop. */
const turnRecordsMax = 64

/**
 * When the first and the last record of a project were received.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readActivity(tables: LogTables, project: number): { firstAt: number; lastAt: number } | undefined {
  const [first] = tables.projectLog.getKeys({ start: projectKey(project), end: projectKey(project + 1), limit: 1 })
  const [last] = headersBefore(tables, project, projectKey(project + 1), 1)
  return first && last && { firstAt: headerAt(tables, readSequence(first)).receivedAt, lastAt: last.receivedAt }
}

/**
 * Counts the events of the newest records of a project, by their headers.
 *
 * @throws {IngestError} `store-damaged`
 */
export async function countSince(
  tables: LogTables,
  { readSnapshot, nextStep }: SlicedReads,
  project: number,
  since: number,
  batchesMax: number,
): Promise<RecentEvents> {
  const recent = { events: 0, since }
  let before: Uint8Array = projectKey(project + 1)
  for (let left = batchesMax; left > 0; ) {
    const headers = readSnapshot(() => headersBefore(tables, project, before, Math.min(left, turnRecordsMax)))
    for (const { receivedAt, count } of headers) {
      if (receivedAt < since) return recent
      recent.events += count
      if (--left === 0) recent.since = receivedAt
    }
    const oldest = headers.at(-1)
    if (!oldest) break
    before = projectKey(project, sequenceKey(oldest.sequence - 1))
    await nextStep()
  }
  return recent
}

function headerAt({ log }: LogTables, sequence: number) {
  // the payload behind the header is not copied
  return readHeader(log.getBinaryFast(sequenceKey(sequence)), sequence)
}

/** The headers of the records before `before`, newest first. */
function headersBefore(tables: LogTables, project: number, before: Uint8Array, limit: number) {
  // in reverse, the start is the later end, and is in the range
  const keys = tables.projectLog.getKeys({ start: before, end: projectKey(project), reverse: true, limit })
  return Array.from(keys, readSequence).map((sequence) => ({ sequence, ...headerAt(tables, sequence) }))
}
