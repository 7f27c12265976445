import { closeBrace, closeBracket, comma, openBrace, openBracket } from '../src/json/bytes.ts'
import { countBuilds, countTypes, endOfEvent, startEvents } from './event.ts'
import { bodyStart, buildsStart, hashKeyStart, projectIdStart, rowsStart, typesStart } from './memory.ts'
import { sipHash } from './sip-hash.ts'
import { byteAt, endOfColon, skipSpace } from './text.ts'

export { bodyStart, buildsStart, countBuilds, countTypes, hashKeyStart, projectIdStart, rowsStart, typesStart }

const eventsMax: i32 = 100
const eventsKey: u64 = 0x2273746e_65766522
/** The result for a batch that is left to `parseBatch`. */
const undecided: i32 = -1

/**
 * Fills the rows of the events of the body, and returns their number, or -1 for a batch that is left to `parseBatch`.
 * `projectIdBytes` is the length of the JSON string of the project.
 */
export function scan(bodyBytes: usize, projectIdBytes: usize): i32 {
  const end = bodyStart + bodyBytes
  // stops reads past the body, as JSON has no zero bytes
  v128.store(end, i64x2(0, 0))
  startEvents(projectIdBytes)
  let at = skipSpace(endOfHead(skipSpace(bodyStart)))
  let count = 0
  if (byteAt(at) !== closeBracket) {
    while (true) {
      if (count === eventsMax) return undecided
      at = skipSpace(endOfEvent(at, count))
      count++
      const byte = byteAt(at)
      if (byte === closeBracket) break
      if (byte !== comma) return undecided
      at = skipSpace(at + 1)
    }
  }
  at = skipSpace(at + 1)
  return byteAt(at) === closeBrace && skipSpace(at + 1) === end ? count : undecided
}

/** The end of `{"events":[`: other members are rare, and one might be a second `events`. */
function endOfHead(at: usize): usize {
  if (byteAt(at) !== openBrace) return 0
  at = skipSpace(at + 1)
  if (load<u64>(at) !== eventsKey) return 0
  at = endOfColon(at + 8)
  return byteAt(at) === openBracket ? at + 1 : 0
}

/** Writes the hash of the first `bytes` of the body, as rows have it, into the first row. */
export function hash(bytes: usize): void {
  store<u64>(rowsStart, rotl(sipHash(bodyStart, bytes), 32))
}
