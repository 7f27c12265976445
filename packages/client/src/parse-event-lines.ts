import type { StoredEvent } from '@ingest/core'
import { unexpectedAnswer } from './refusal-of.ts'

const lineFeed = 0x0a
const closingBrace = 0x7d
/** A string of JSON holds no bare quote, so the first of these is where the event begins. */
const eventMark = Buffer.from(',"event":')
/** No line is longer: an event is at most a batch, and what stands before it is short. */
const lineBytesMax = 512 * 1024

/**
 * The events of NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` a line. The bytes of an event are cut
 * out of its line, never written anew.
 *
 * @throws {IngestError} `unexpected-answer`
 */
export async function* parseEventLines(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<StoredEvent, void> {
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

function parseLine(line: Buffer): StoredEvent {
  const mark = line.indexOf(eventMark)
  const head = mark === -1 ? undefined : parseHead(`${line.toString('utf8', 0, mark)}}`)
  if (head === undefined || line.at(-1) !== closingBrace) throw unexpectedAnswer('a line is not that of an event')
  return { ...head, bytes: line.subarray(mark + eventMark.length, -1) }
}

function parseHead(text: string): Omit<StoredEvent, 'bytes'> | undefined {
  try {
    const { cursor, receivedAt } = JSON.parse(text)
    return typeof cursor === 'string' && Number.isSafeInteger(receivedAt) ? { cursor, receivedAt } : undefined
  } catch {
    return undefined
  }
}
