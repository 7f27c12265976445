import type { StoredEvent } from './event-store.ts'

const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20

/**
 * One line of NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` and a line feed. The event is the bytes
 * that were sent; only a line break between its tokens, which a line cannot hold, becomes a space.
 */
export function eventLine({ cursor, receivedAt, bytes }: StoredEvent): Buffer {
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
