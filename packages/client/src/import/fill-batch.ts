import { type BatchResult, batchBytesMax, batchEventsMax } from '@ingest/core'

/** Whether an answer says what became of each event of a batch of so many. */
export function accountsFor({ accepted, duplicates, rejected }: BatchResult, count: number): boolean {
  const places = new Set(rejected.map(({ index }) => index))
  return (
    accepted + duplicates + places.size === count &&
    places.size === rejected.length &&
    rejected.every(
      ({ index, issues }) => Number.isInteger(index) && index >= 0 && index < count && Array.isArray(issues),
    )
  )
}

const start = Buffer.from('{"events":[')
const between = Buffer.from(',')
const end = Buffer.from(']}')

/** The longest event that fits into a batch, alone, in bytes. */
export const eventBytesMax = batchBytesMax - start.length - end.length

/** The body of a request, and how many events are in it. */
export interface FilledBatch {
  body: Buffer
  count: number
}

/** As many of the first events, in their order, as one batch may hold: 100, and 262,144 bytes with what is around them. */
export function fillBatch(events: readonly { bytes: Uint8Array }[]): FilledBatch {
  const parts: Uint8Array[] = [start]
  let size = start.length + end.length
  let count = 0
  for (const { bytes } of events) {
    const needed = bytes.length + (count > 0 ? between.length : 0)
    if (count === batchEventsMax || size + needed > batchBytesMax) break
    if (count > 0) parts.push(between)
    parts.push(bytes)
    size += needed
    count++
  }
  return { body: Buffer.concat([...parts, end]), count }
}

/** Whether so many events, of so many bytes together, fill a batch, so that there is nothing to wait for. */
export function fillsBatch(count: number, bytes: number): boolean {
  return count >= batchEventsMax || bytes + count * between.length >= eventBytesMax
}
