import { type BatchResult, batchBytesMax, batchEventsMax } from '@ingest/core'
import { unexpectedResponse } from '../http/error-from-response.ts'

export const envelopeStart = Buffer.from('{"events":[')
export const separator = Buffer.from(',')
export const envelopeEnd = Buffer.from(']}')

/** Maximum bytes of an event that fits into a batch of its own. */
export const eventBytesMax = batchBytesMax - envelopeStart.length - envelopeEnd.length

/** The body of a request, and the number of events in it. */
export interface FilledBatch {
  body: Buffer
  count: number
}

/** Fills a batch with the first events, in order, up to 100 events and 262,144 bytes of body. */
export function fillBatch(events: readonly { bytes: Uint8Array }[]): FilledBatch {
  const parts: Uint8Array[] = [envelopeStart]
  let size = envelopeStart.length + envelopeEnd.length
  let count = 0
  for (const { bytes } of events) {
    const needed = bytes.length + (count > 0 ? separator.length : 0)
    if (count === batchEventsMax || size + needed > batchBytesMax) break
    if (count > 0) parts.push(separator)
    parts.push(bytes)
    size += needed
    count++
  }
  return { body: Buffer.concat([...parts, envelopeEnd]), count }
}

/** Whether `count` events of `bytes` bytes in total fill a batch. */
export function isBatchFull(count: number, bytes: number): boolean {
  return count >= batchEventsMax || bytes + count * separator.length >= eventBytesMax
}

/**
 * Checks that a result has one outcome for each of `count` events.
 *
 * @throws {IngestError} `unexpected-response`
 */
export function checkResult(result: BatchResult, count: number): BatchResult {
  const { accepted, duplicates, rejected } = result
  const indexes = new Set(rejected.map(({ index }) => index))
  const isComplete =
    accepted + duplicates + indexes.size === count &&
    indexes.size === rejected.length &&
    rejected.every(
      ({ index, issues }) => Number.isInteger(index) && index >= 0 && index < count && Array.isArray(issues),
    )
  if (isComplete) return result
  throw unexpectedResponse('it lacks the outcome of an event')
}
