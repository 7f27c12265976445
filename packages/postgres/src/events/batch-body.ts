/** Between the events of a batch: U+001E, which JSON text cannot contain unescaped (RFC 8259, section 7). */
const separator = 0x1e

interface Slice {
  start: number
  end: number
}

/** The bytes of events of a body, joined. */
export function joinEvents(body: Uint8Array, events: readonly Slice[]): Buffer {
  const size = events.reduce((sum, { start, end }) => sum + end - start + 1, -1)
  const joined = Buffer.allocUnsafe(size)
  let at = 0
  for (const { start, end } of events) {
    if (at > 0) joined[at++] = separator
    joined.set(body.subarray(start, end), at)
    at += end - start
  }
  return joined
}

/** The events of a stored batch: an index, which counts those that were known before too, and the exact bytes. */
export function splitEvents(text: string): { index: number; bytes: Buffer }[] {
  const bytes = Buffer.from(text)
  const events: { index: number; bytes: Buffer }[] = []
  for (let index = 0, start = 0; start <= bytes.length; index++) {
    const found = bytes.indexOf(separator, start)
    const end = found === -1 ? bytes.length : found
    if (end > start) events.push({ index, bytes: bytes.subarray(start, end) })
    start = end + 1
  }
  return events
}
