import type { EventCount } from '@ingest/core'
import { checkListed, type EventLog, type ListedRecord } from '../log/event-log.ts'
import { type Position, storedOrdinal } from '../log/record.ts'
import { type SlicedReads, stepLookupsMax } from '../log/snapshot-reader.ts'

/**
 * Counts the events of the oldest records of a project after a position and from a time on, from their headers.
 *
 * @throws {IngestError} `store-damaged`
 */
export async function countRange(
  log: EventLog,
  { readSnapshot, nextStep }: SlicedReads,
  {
    project,
    after,
    from,
    batchesMax,
  }: { project: number; after: Position; from: number | undefined; batchesMax: number },
): Promise<EventCount> {
  function unreadIn(record: ListedRecord) {
    const header = log.header(record.sequence)
    checkListed(header, project, record)
    const read = record.sequence === after.sequence ? after.index + 1 : 0
    return { ...record, receivedAt: header.receivedAt, events: header.count - read }
  }

  // other consumers may be counted at the same time
  await nextStep()
  let next =
    from === undefined
      ? after.sequence
      : Math.max(
          after.sequence,
          readSnapshot(() => log.firstSince(from)),
        )
  let left = batchesMax
  const counted: EventCount = { events: 0, batchesLeft: 0 }
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
