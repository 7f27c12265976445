import { closeBrace, comma, lowerN, openBrace, quote } from '../src/json/bytes.ts'
import { setExpected, expectedBytes, expectedField, isExpected, nextEntry } from './keys.ts'
import {
  buildId,
  buildIdBytesMax,
  buildIdBytesMin,
  endOfTextField,
  eventId,
  eventIdBytesMax,
  fieldAt,
  projectId,
  timestamp,
  type,
} from './known-fields.ts'
import {
  bodyStart,
  buildsStart,
  keysStart,
  projectIdStart,
  rowsStart,
  slotsStart,
  toOffset,
  typeSlotsStart,
  typesStart,
} from './memory.ts'
import { sipHash } from './sip-hash.ts'
import { byteAt, endOfColon, endOfName, endOfPlainString, skipSpace } from './text.ts'
import { endOfTime } from './time.ts'
import { endOfNull, endOfSafeInteger, endOfValue, quoteBytes, startValues } from './value.ts'

// the columns of a row, in bytes
const startColumn: usize = 0
const endColumn: usize = 4
/** The high half of the hash, followed by the low one. */
const hashColumn: usize = 8
const idStartColumn: usize = 16
const idEndColumn: usize = 20
const buildColumn: usize = 24
const typeColumn: usize = 28
const rowBytes: usize = 32

const noName: u32 = 0xffff_ffff
const slotMask: usize = 255

/** The length of the JSON string of the project. */
let projectIdBytes: usize = 0
/** The row of the event that is being read. */
let row: usize = 0
/** The number of distinct builds so far. */
let builds: u32 = 0
/** The same for types. */
let types: u32 = 0
/** The JSON string of the build that was looked up last, and its number. */
let lastBuild: usize = 0
let lastBuildBytes: usize = 0
let lastBuildNumber: u32 = 0

/** Call it before the first event of a batch. */
export function startEvents(projectIdLength: usize): void {
  projectIdBytes = projectIdLength
  builds = 0
  types = 0
  memory.fill(slotsStart, 0, slotMask + 1)
  memory.fill(typeSlotsStart, 0, slotMask + 1)
}

/** The number of distinct builds of the events. */
export function countBuilds(): u32 {
  return builds
}

export function countTypes(): u32 {
  return types
}

/** The end of a valid event of the project; fills its row. */
export function endOfEvent(start: usize, index: u32): usize {
  if (byteAt(start) !== openBrace) return 0
  row = rowsStart + usize(index) * rowBytes
  store<u32>(row, noName, buildColumn)
  store<u32>(row, noName, typeColumn)
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
    // of two members of a name, the last one counts: left to parseBatch
    if ((seen & field) !== 0) return 0
    seen |= field
    at = skipSpace(endOfFieldValue(at, field))
  } while (byteAt(at) === comma)
  if (byteAt(at) !== closeBrace || (seen & identity) !== identity) return 0
  store<u32>(row, toOffset(start), startColumn)
  store<u32>(row, toOffset(at + 1), endColumn)
  return isRepeat(index) ? 0 : at + 1
}

const identity: u32 = projectId | eventId

/** The end of a value that is valid for its field. */
@inline
function endOfFieldValue(at: usize, field: u32): usize {
  if (field === 0) return endOfValue(at)
  if (field === projectId) return endOfProjectId(at)
  if (field === eventId) return endOfEventId(at)
  if (field === buildId) return endOfBuildId(at)
  if (field === timestamp) return endOfTimestamp(at)
  if (field === type) return endOfType(at)
  return endOfTextField(at, field)
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
  if (bytes - 1 >= eventIdBytesMax) return 0
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
  if (bytes - quoteBytes - buildIdBytesMin > buildIdBytesMax - buildIdBytesMin) return 0
  lastBuild = at
  lastBuildBytes = bytes
  lastBuildNumber = numberOfBuild(at, bytes)
  store<u32>(row, lastBuildNumber, buildColumn)
  return end
}

/** The number of a build: that of the same build of an earlier event, or a new one. */
function numberOfBuild(build: usize, bytes: usize): u32 {
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
function endOfType(at: usize): usize {
  const end = endOfTextField(at, type)
  if (byteAt(at) === quote && end !== 0) store<u32>(row, numberOfType(at, end - at), typeColumn)
  return end
}

/** The number of a type: that of the same type of an earlier event, or a new one. */
@inline
function numberOfType(at: usize, bytes: usize): u32 {
  let slot = slotOfType(at, bytes)
  while (true) {
    const next: u32 = load<u8>(typeSlotsStart + slot)
    if (next === 0) break
    const entry = typesStart + (usize(next - 1) << 3)
    const known = load<u32>(entry)
    if (load<u32>(entry, 4) - known === bytes && isSame(at, bodyStart + known, bytes)) return next - 1
    slot = (slot + 1) & slotMask
  }
  const entry = typesStart + (usize(types) << 3)
  store<u32>(entry, toOffset(at), 0)
  store<u32>(entry, toOffset(at + bytes), 4)
  store<u8>(typeSlotsStart + slot, types + 1)
  return types++
}

/** A hash of its first eight bytes, its last eight and its length. Types that share a slot are compared one by one. */
@inline
function slotOfType(at: usize, bytes: usize): usize {
  const first = load<u64>(at)
  const words = bytes < 8 ? first & ((u64(1) << (bytes << 3)) - 1) : first ^ rotl(load<u64>(at + bytes - 8), 29)
  return usize(((words ^ u64(bytes)) * 0x9e37_79b9_7f4a_7c15) >>> 56)
}

@inline
function endOfTimestamp(at: usize): usize {
  const byte = byteAt(at)
  if (byte === quote) return endOfTime(at)
  return byte === lowerN ? endOfNull(at) : endOfSafeInteger(at, false)
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
