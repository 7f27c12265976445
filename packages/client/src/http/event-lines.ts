import type { EventPage, ScannedEvent, StoredEvent } from '@ingest/core'
import { unexpectedResponse } from './error-from-response.ts'

const lineFeed = 0x0a
const closingBrace = 0x7d
/** The first match is where the event starts: inside of JSON strings, quotes are escaped. */
const eventMark = Buffer.from(',"event":')
/** Maximum length of a line: an event fits into a batch, and the members before it are short. */
const lineBytesMax = 512 * 1024

/**
 * Parses NDJSON. Each line is `{"cursor":"…","receivedAt":1795203225083,"event":{…}}`, `{"cursor":"…"}`, or an erased
 * event with its id in `erased`. Yields a page for each chunk in which a line ends, also if a later line of the chunk
 * throws. The bytes of an event are sliced from its line, never serialized again.
 *
 * @throws {IngestError} `unexpected-response`
 */
export async function* parseEventLines(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<EventPage, void> {
  let rest: Uint8Array[] = []
  let restBytes = 0
  for await (const chunk of body) {
    const scanned: ScannedEvent[] = []
    let start = 0
    try {
      for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
        const line = Buffer.concat([...rest, chunk.subarray(start, end)])
        rest = []
        restBytes = 0
        start = end + 1
        scanned.push(parseLine(line))
      }
    } finally {
      if (scanned.length > 0) yield { events: scanned.filter(isEvent), scanned }
    }
    if (start === chunk.length) continue
    rest.push(chunk.subarray(start))
    restBytes += chunk.length - start
    if (restBytes > lineBytesMax) throw unexpectedResponse('a line of events is too long')
  }
  if (rest.length > 0) throw unexpectedResponse('the last line of events is incomplete')
}

function isEvent(line: ScannedEvent): line is StoredEvent {
  return line.bytes !== undefined
}

function parseLine(line: Buffer): ScannedEvent {
  const mark = line.indexOf(eventMark)
  const { cursor, receivedAt, erased } = parseHead(mark === -1 ? line.toString() : `${line.toString('utf8', 0, mark)}}`)
  if (typeof cursor === 'string') {
    if (mark === -1 && receivedAt === undefined) return { cursor }
    if (mark === -1 && Number.isSafeInteger(receivedAt) && typeof erased === 'string') {
      return { cursor, receivedAt: receivedAt as number, bytes: Buffer.alloc(0), erased }
    }
    if (mark !== -1 && Number.isSafeInteger(receivedAt) && line.at(-1) === closingBrace) {
      return { cursor, receivedAt: receivedAt as number, bytes: line.subarray(mark + eventMark.length, -1) }
    }
  }
  throw unexpectedResponse('a line does not hold an event')
}

function parseHead(text: string): { cursor?: unknown; receivedAt?: unknown; erased?: unknown } {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}
