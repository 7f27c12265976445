import type { BatchEvents } from '@ingest/core'
import { column, wordsPerEvent } from '@ingest/core/internal'

/** Separates the events of a batch: U+001E, which JSON text cannot contain unescaped (RFC 8259, section 7). */
const separator = 0x1e

/** The number of bytes that {@link writeEvents} writes. */
export function joinedBytes({ rows }: BatchEvents): number {
  let bytes = -1
  for (let at = 0; at < rows.length; at += wordsPerEvent) {
    bytes += (rows[at + column.end] as number) - (rows[at + column.start] as number) + 1
  }
  return bytes
}

/** Writes the bytes of the events of a body, joined. Returns where they end. */
export function writeEvents(out: Buffer, at: number, body: Buffer, { rows }: BatchEvents): number {
  const startOf = (row: number) => rows[row + column.start] as number
  let to = at
  for (let row = 0; row < rows.length; ) {
    if (row > 0) out[to++] = separator
    const start = startOf(row)
    // in compact JSON, one comma separates events, so that several can be copied at once
    let last = row
    while (last + wordsPerEvent < rows.length && startOf(last + wordsPerEvent) === endOf(last) + 1)
      last += wordsPerEvent
    body.copy(out, to, start, endOf(last))
    for (row += wordsPerEvent; row <= last; row += wordsPerEvent) out[to + startOf(row) - 1 - start] = separator
    to += endOf(last) - start
  }
  return to

  function endOf(row: number): number {
    return rows[row + column.end] as number
  }
}

/** An event of a stored batch. */
export interface BatchEvent {
  /** Its position in the batch, including events that were known before. */
  index: number
  /** The bytes that were sent; for a tombstone, the JSON string of its id. */
  bytes: Buffer
}

/** A tombstone starts with a quote, an event with a brace. */
const quote = 0x22

export function isTombstone(bytes: Uint8Array): boolean {
  return bytes[0] === quote
}

/** The events of a stored batch, including erased ones. */
export function splitEvents(text: string): BatchEvent[] {
  const bytes = Buffer.from(text)
  const events: BatchEvent[] = []
  for (let index = 0, start = 0; start <= bytes.length; index++) {
    const found = bytes.indexOf(separator, start)
    const end = found === -1 ? bytes.length : found
    if (end > start) events.push({ index, bytes: bytes.subarray(start, end) })
    start = end + 1
  }
  return events
}
