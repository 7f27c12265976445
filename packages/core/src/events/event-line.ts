import { carriageReturn, lineFeed, space } from '../json/bytes.ts'
import type { StoredEvent } from './event-store.ts'

/**
 * One line of NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` and a line feed. The event has the bytes
 * that were sent, except that line breaks between its tokens become spaces. An erased event has `"erased":"<eventId>"` in
 * place of `event`.
 */
export function eventLine({ cursor, receivedAt, bytes, erased }: StoredEvent): Buffer {
  if (erased !== undefined) return Buffer.from(`${JSON.stringify({ cursor, receivedAt, erased })}\n`)
  const start = Buffer.from(`{"cursor":${JSON.stringify(cursor)},"receivedAt":${receivedAt},"event":`)
  const line = Buffer.concat([start, bytes, lineEnd])
  if (!hasLineBreak(bytes)) return line
  for (let at = start.length; at < line.length - lineEnd.length; at++) {
    if (line[at] === lineFeed || line[at] === carriageReturn) line[at] = space
  }
  return line
}

function hasLineBreak(bytes: Uint8Array): boolean {
  return bytes.includes(lineFeed) || bytes.includes(carriageReturn)
}

const lineEnd = Buffer.from('}\n')
