import {
  buildIdBytesMax,
  buildIdBytesMin,
  eventIdBytesMax,
  otherIdBytesMax,
  otherIdBytesMin,
  placeIdBytesMax,
  placeIdBytesMin,
  typeBytesMax,
  typeBytesMin,
} from '../src/events/field-limits.ts'
import { closeBrace, comma, lowerN, openBrace, quote } from '../src/json/bytes.ts'
import { setExpected, expectedBytes, expectedField, isExpected, nextEntry } from './keys.ts'
import { bodyStart, buildsStart, keysStart, projectIdStart, rowsStart, slotsStart, toOffset } from './memory.ts'
import { sipHash } from './sip-hash.ts'
import { byteAt, endOfColon, endOfName, endOfPlainString, skipSpace } from './text.ts'
import { endOfTime } from './time.ts'
import { endOfNull, endOfSafeInteger, endOfValue, startValues } from './value.ts'

// the columns of a row, in bytes
const startColumn: usize = 0
const endColumn: usize = 4
/** The high half of the hash, and the low one behind it. */
const hashColumn: usize = 8
const idStartColumn: usize = 16
const idEndColumn: usize = 20
const buildColumn: usize = 24
const rowBytes: usize = 28

const noBuild: u32 = 0xffff_ffff
const idBytesMax: usize = eventIdBytesMax
const buildBytesMin: usize = buildIdBytesMin
const buildBytesMax: usize = buildIdBytesMax
/** Both quotes of a string. */
const quoteBytes: usize = 2
const slotMask: usize = 255

/** The length of the JSON string of the project. */
let projectIdBytes: usize = 0
/** The row of the event that is being read. */
let row: usize = 0
/** The number of distinct builds so far. */
let builds: u32 = 0
/** The JSON string of the last build that was not that of the event before, and its number. */
let lastBuild: usize = 0
let lastBuildBytes: usize = 0
let lastBuildNumber: u32 = 0

/** Call it before the first event of a batch. */
export function startEvents(ofProjectId: usize): void {
  projectIdBytes = ofProjectId
  builds = 0
  memory.fill(slotsStart, 0, slotMask + 1)
}

/** The number of distinct builds of the events. */
export function countBuilds(): u32 {
  return builds
}

/** The end of a valid event of the project; fills its row. */
export function endOfEvent(start: usize, index: u32): usize {
  if (byteAt(start) !== openBrace) return 0
  row = rowsStart + usize(index) * rowBytes
  store<u32>(row, noBuild, buildColumn)
  startValues()
  let seen: u32 = 0
  let at = start
  let key = keysStart
  do {
    let field: u32 = 0
    if (isExpected(key, at)) {
      field = expectedField(key)
      at = skipSpace(at + expectedBytes(key))
    } else {
      const keyStart = skipSpace(at + 1)
      const end = endOfColon(endOfPlainString(keyStart))
      if (end === 0) return 0
      field = fieldAt(keyStart)
      setExpected(key, at, end, field)
      at = end
    }
    key = nextEntry(key, keysStart)
    // the last of two members wins: left to parseBatch
    if ((seen & field) !== 0) return 0
    seen |= field
    at = skipSpace(endOfFieldValue(at, field))
  } while (byteAt(at) === comma)
  if (byteAt(at) !== closeBrace || (seen & identity) !== identity) return 0
  store<u32>(row, toOffset(start), startColumn)
  store<u32>(row, toOffset(at + 1), endColumn)
  return isRepeat(index) ? 0 : at + 1
}

// the known fields, a bit each
const projectId: u32 = 1
const eventId: u32 = 2
const buildId: u32 = 4
const timestamp: u32 = 8
const type: u32 = 16
const placeId: u32 = 32
// the fields from here on have the same rule
const sessionId: u32 = 64
const serverId: u32 = 128
const playerId: u32 = 256
const identity: u32 = projectId | eventId

// the first eight bytes of the known keys, closing quote included, and the rest of longer ones
const eventIdKey: u64 = 0x22644974_6e657665
const buildIdKey: u64 = 0x22644964_6c697562
const placeIdKey: u64 = 0x22644965_63616c70
const serverIdKey: u64 = 0x64497265_76726573
const playerIdKey: u64 = 0x64497265_79616c70
const timestampKey: u64 = 0x6d617473_656d6974
const timestampKeyRest: i32 = 0x2270
const sessionIdKey: u64 = 0x496e6f69_73736573
const projectIdKey: u64 = 0x49746365_6a6f7270
const idRest: i32 = 0x2264
const typeKey: u64 = 0x22_65707974
const typeKeyMask: u64 = 0xff_ffffffff

/** The field of the key at `at`, its quote included; 0 for an unknown key. */
function fieldAt(at: usize): u32 {
  const word = load<u64>(at + 1)
  const rest: i32 = load<u16>(at + 9)
  if (word === eventIdKey) return eventId
  if (word === buildIdKey) return buildId
  if (word === placeIdKey) return placeId
  if (word === projectIdKey) return rest === idRest ? projectId : 0
  if (word === timestampKey) return rest === timestampKeyRest ? timestamp : 0
  if (word === sessionIdKey) return rest === idRest ? sessionId : 0
  if (word === playerIdKey) return (rest & 0xff) === quote ? playerId : 0
  if (word === serverIdKey) return (rest & 0xff) === quote ? serverId : 0
  return (word & typeKeyMask) === typeKey ? type : 0
}

/** The end of a value that is valid for its field. */
@inline
function endOfFieldValue(at: usize, field: u32): usize {
  if (field === 0) return endOfValue(at)
  if (field === projectId) return endOfProjectId(at)
  if (field === eventId) return endOfEventId(at)
  if (field === buildId) return endOfBuildId(at)
  if (field === timestamp) return endOfTimestamp(at)
  if (field === type) return endOfText(at, typeBytesMin, typeBytesMax, false)
  if (field === placeId) return endOfText(at, placeIdBytesMin, placeIdBytesMax, true)
  return endOfText(at, otherIdBytesMin, otherIdBytesMax, true)
}

@inline
function endOfProjectId(at: usize): usize {
  return isSame(at, projectIdStart, projectIdBytes) ? at + projectIdBytes : 0
}

@inline
function endOfEventId(at: usize): usize {
  const end = endOfName(at)
  const bytes = end - at - quoteBytes
  // checks both limits, as unsigned numbers below 0 wrap around
  if (bytes - 1 >= idBytesMax) return 0
  store<u64>(row, rotl(sipHash(at + 1, bytes), 32), hashColumn)
  store<u32>(row, toOffset(at), idStartColumn)
  store<u32>(row, toOffset(end), idEndColumn)
  return end
}

@inline
function endOfBuildId(at: usize): usize {
  // no build precedes the first one
  if (builds !== 0 && isSame(at, lastBuild, lastBuildBytes)) {
    store<u32>(row, lastBuildNumber, buildColumn)
    return at + lastBuildBytes
  }
  return byteAt(at) === lowerN ? endOfNull(at) : endOfOtherBuildId(at)
}

function endOfOtherBuildId(at: usize): usize {
  const end = endOfName(at)
  const bytes = end - at
  if (bytes - quoteBytes - buildBytesMin > buildBytesMax - buildBytesMin) return 0
  lastBuild = at
  lastBuildBytes = bytes
  lastBuildNumber = numberOf(at, bytes)
  store<u32>(row, lastBuildNumber, buildColumn)
  return end
}

/** The number of a build: that of the same build of an earlier event, or a new one. */
function numberOf(build: usize, bytes: usize): u32 {
  let entry = buildsStart
  for (let number: u32 = 0; number < builds; number++) {
    if (isSame(build, bodyStart + load<u32>(entry), bytes)) return number
    entry += 8
  }
  store<u32>(entry, toOffset(build), 0)
  store<u32>(entry, toOffset(build + bytes), 4)
  return builds++
}

@inline
function endOfTimestamp(at: usize): usize {
  const byte = byteAt(at)
  if (byte === quote) return endOfTime(at)
  return byte === lowerN ? endOfNull(at) : endOfSafeInteger(at, false)
}

/** The end of a string of `bytesMin` to `bytesMax` bytes, of null, or of an integer where one is valid. */
@inline
function endOfText(at: usize, bytesMin: usize, bytesMax: usize, mayBeInteger: bool): usize {
  const byte = byteAt(at)
  if (byte === quote) {
    const end = endOfPlainString(at)
    return end - at - quoteBytes - bytesMin <= bytesMax - bytesMin ? end : 0
  }
  if (byte === lowerN) return endOfNull(at)
  return mayBeInteger ? endOfSafeInteger(at, true) : 0
}

/** Whether the same bytes are at both positions. */
@inline
function isSame(a: usize, b: usize, bytes: usize): bool {
  while (bytes >= 8) {
    if (load<u64>(a) !== load<u64>(b)) return false
    a += 8
    b += 8
    bytes -= 8
  }
  return ((load<u64>(a) ^ load<u64>(b)) & ((u64(1) << (bytes << 3)) - 1)) === 0
}

/** Whether an earlier event has an id of the same hash. */
@inline
function isRepeat(index: u32): bool {
  const hash = load<u64>(row, hashColumn)
  // the hashes are those of a secret key, so that no client can fill neighbouring slots
  let slot = usize(hash) & slotMask
  while (true) {
    const number: u32 = load<u8>(slotsStart + slot)
    if (number === 0) break
    if (load<u64>(rowsStart + usize(number - 1) * rowBytes, hashColumn) === hash) return true
    slot = (slot + 1) & slotMask
  }
  store<u8>(slotsStart + slot, index + 1)
  return false
}
