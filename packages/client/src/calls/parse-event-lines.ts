import type { Cursor, StoredEvent } from '@ingest/core'
import { unexpectedAnswer } from '../http/error-from-response.ts'

const lineFeed = 0x0a
const closingBrace = 0x7d
/** A string of JSON holds no bare quote, so the first of these is where the event begins. */
const eventMark = Buffer.from(',"event":')
/** No line is longer: an event is at most a batch, and what stands before it is short. */
const lineBytesMax = 512 * 1024

/** How far the server has read: the events up to there that are in no line were not wanted. */
export interface ReadMark {
  cursor: Cursor
  bytes?: never
}

/**
 * The events of NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` a line, or `{"cursor":"…"}`. The bytes of
 * an event are cut out of its line, never written anew.
 *
 * @throws {IngestError} `unexpected-answer`
 */
export async function* parseEventLines(
  pieces: AsyncIterable<Uint8Array>,
): AsyncGenerator<StoredEvent | ReadMark, void> {
  let begun: Uint8Array[] = []
  let begunBytes = 0
  for await (const piece of pieces) {
    let start = 0
    for (let end = piece.indexOf(lineFeed); end !== -1; end = piece.indexOf(lineFeed, start)) {
      const line = Buffer.concat([...begun, piece.subarray(start, end)])
      begun = []
      begunBytes = 0
      start = end + 1
      yield parseLine(line)
    }
    if (start === piece.length) continue
    begun.push(piece.subarray(start))
    begunBytes += piece.length - start
    if (begunBytes > lineBytesMax) throw unexpectedAnswer('a line of events has no end')
  }
  if (begun.length > 0) throw unexpectedAnswer('the last line of events has no end')
}

function parseLine(line: Buffer): StoredEvent | ReadMark {
  const mark = line.indexOf(eventMark)
  const { cursor, receivedAt } = parseHead(mark === -1 ? line.toString() : `${line.toString('utf8', 0, mark)}}`)
  if (typeof cursor === 'string') {
    if (mark === -1 && receivedAt === undefined) return { cursor }
    if (mark !== -1 && Number.isSafeInteger(receivedAt) && line.at(-1) === closingBrace) {
      return { cursor, receivedAt: receivedAt as number, bytes: line.subarray(mark + eventMark.length, -1) }
    }
  }
  throw unexpectedAnswer('a line is not that of an event')
}

function parseHead(text: string): { cursor?: unknown; receivedAt?: unknown } {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}
