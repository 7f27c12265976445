import type { Activity } from '@ingest/core'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { EventLogTables, SlicedReads } from './event-log.ts'
import { readHeader } from './record.ts'

/** How many records one step reads. */
const recordsAtOnce = 64

/**
 * When the events of a project came, by the headers of its first record and of its newest ones.
 *
 * @throws {IngestError} `store-damaged`
 */
export async function readActivity(
  { log, projectLog }: Pick<EventLogTables, 'log' | 'projectLog'>,
  { readSnapshot: look, nextStep }: SlicedReads,
  project: number,
  { since, batchesMax }: { since: number; batchesMax: number },
): Promise<Activity | undefined> {
  const [start, end] = [projectKey(project), projectKey(project + 1)]

  function headerAt(sequence: number) {
    // no copy is made of what stands behind the header
    return readHeader(log.getBinaryFast(sequenceKey(sequence)), sequence)
  }

  /** The headers of the records before `before`, newest first. */
  function headersBefore(before: Uint8Array, limit: number) {
    // backwards, the start is the later end, and is in the range
    const keys = projectLog.getKeys({ start: before, end: start, reverse: true, limit })
    return Array.from(keys, readSequence).map((sequence) => ({ sequence, ...headerAt(sequence) }))
  }

  const edges = look(() => {
    const [first] = projectLog.getKeys({ start, end, limit: 1 })
    const [last] = headersBefore(end, 1)
    return first && last && { firstAt: headerAt(readSequence(first)).receivedAt, lastAt: last.receivedAt }
  })
  if (!edges) return undefined
  const recent = { events: 0, since }
  let before: Uint8Array = end
  for (let left = batchesMax; left > 0; ) {
    const headers = look(() => headersBefore(before, Math.min(left, recordsAtOnce)))
    for (const { receivedAt, count } of headers) {
      if (receivedAt < since) return { ...edges, recent }
      recent.events += count
      if (--left === 0) recent.since = receivedAt
    }
    const oldest = headers.at(-1)
    if (!oldest) break
    before = projectKey(project, sequenceKey(oldest.sequence - 1))
    await nextStep()
  }
  return { ...edges, recent }
}
