import type { EventsAfter } from '@ingest/core'
import { checkListed, type EventLog, type ListedRecord, type SlicedReads } from './event-log.ts'
import { type Position, storedOrdinal } from './record.ts'

/** The most records that are read in one turn of the event loop. */
const turnRecordsMax = 64

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
 * Counts the events of the oldest records of a project behind a position, by their headers.
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

  // others may count at the same time, as for all consumers
  await nextStep()
  let next = after.sequence
  let left = batchesMax
  const counted: EventsAfter = { events: 0, batchesLeft: 0 }
  for (;;) {
    const [records, batches] = readSnapshot(() => {
      next = Math.max(next, log.expiredBefore(project))
      return [log.records(project, next, turnRecordsMax).map(unreadIn), log.totals(project).batches] as const
    })
    for (const { ordinal, receivedAt, events } of records) {
      if (events === 0) continue
      counted.firstAt ??= receivedAt
      if (left-- === 0) return { ...counted, batchesLeft: storedOrdinal(batches - ordinal + 1) }
      counted.events += events
    }
    const newest = records.at(-1)
    if (!newest || records.length < turnRecordsMax) return counted
    next = newest.sequence + 1
    await nextStep()
  }
}
