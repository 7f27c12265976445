import {
  closeBrace,
  closeBracket,
  comma,
  digit0,
  lowerE,
  lowerF,
  lowerN,
  lowerT,
  minus,
  openBrace,
  openBracket,
  plus,
  point,
  quote,
  space,
} from '../src/json/bytes.ts'
import { setExpected, expectedBytes, isExpected, nextEntry } from './keys.ts'
import { nestedKeysStart } from './memory.ts'
import { byteAt, endOfColon, endOfPlainString, endOfString, skipSpace, splat } from './text.ts'

/** Both quotes of a string. */
export const quoteBytes: usize = 2

/** The entry of the next key inside a value. */
let key: usize = nestedKeysStart

/** Call it before each event. */
@inline
export function startValues(): void {
  key = nestedKeysStart
}

/** The end of a value that nests at most 31 levels deep. */
@inline
export function endOfValue(at: usize): usize {
  const byte = byteAt(at)
  return byte === openBrace || byte === openBracket ? endOfContainer(at) : endOfScalar(at)
}

/** No open container. Each one adds a bit below this 1, the innermost lowest: 1 for an object, 0 for an array. */
const noContainer: u32 = 1

/** The end of an object or array. Not recursive, which is faster. */
function endOfContainer(at: usize): usize {
  let open = noContainer
  do {
    const byte = byteAt(at)
    if (byte === openBrace || byte === openBracket) {
      if (open >>> 31 !== 0) return 0
      const isObject = byte === openBrace
      open = (open << 1) | u32(isObject)
      const first = skipSpace(at + 1)
      if (byteAt(first) !== closingOf(open)) {
        at = isObject ? endOfKey(at) : first
        continue
      }
      at = first
    } else at = skipSpace(endOfScalar(at))
    // after a value, or at the end of an empty container
    while (byteAt(at) === closingOf(open)) {
      open >>>= 1
      if (open === noContainer) return at + 1
      at = skipSpace(at + 1)
    }
    if (byteAt(at) !== comma) return 0
    at = (open & 1) !== 0 ? endOfKey(at) : skipSpace(at + 1)
  } while (at !== 0)
  return 0
}

/** The byte that closes the innermost container. */
@inline
function closingOf(open: u32): i32 {
  return (open & 1) !== 0 ? closeBrace : closeBracket
}

/** The end of a brace or comma, the key after it and its colon, and the whitespace around them. */
@inline
function endOfKey(at: usize): usize {
  const entry = key
  key = nextEntry(entry, nestedKeysStart)
  return isExpected(entry, at) ? skipSpace(at + expectedBytes(entry)) : endOfOtherKey(at, entry)
}

function endOfOtherKey(at: usize, entry: usize): usize {
  const end = endOfColon(endOfString(skipSpace(at + 1)))
  if (end !== 0) setExpected(entry, at, end, 0)
  return end
}

@inline
function endOfScalar(at: usize): usize {
  const byte = byteAt(at)
  if (byte === quote) return endOfString(at)
  if (byte === lowerT) return load<u32>(at) === trueWord ? at + 4 : 0
  if (byte === lowerF) return load<u32>(at + 1) === falseWord ? at + 5 : 0
  if (byte === lowerN) return endOfNull(at)
  return endOfNumber(at)
}

const trueWord: u32 = 0x65757274
/** Without its first letter. */
const falseWord: u32 = 0x65736c61
const nullWord: u32 = 0x6c6c756e

@inline
export function endOfNull(at: usize): usize {
  return load<u32>(at) === nullWord ? at + 4 : 0
}

/** RFC 8259 section 6. Fast path: at most 15 bytes without an exponent, up to the first byte that may follow a number. */
@inline
function endOfNumber(at: usize): usize {
  const bytes = v128.load(at)
  // a brace and a bracket differ in this bit
  const isClosing = i8x16.eq(v128.or(bytes, splat(0x20)), splat(closeBrace))
  const isComma = i8x16.eq(bytes, splat(comma))
  const isEnd = v128.or(v128.or(isComma, isClosing), i8x16.le_u(bytes, splat(space)))
  const count = ctz(i8x16.bitmask(isEnd) | 0x1_0000)
  return count < 16 && isUsualNumber(at, count, i8x16.bitmask(areDigits(bytes))) ? at + count : endOfOtherNumber(at)
}

/** Whether `count` bytes are a number without an exponent. `digits` has a bit for each byte that is a digit. */
@inline
function isUsualNumber(at: usize, count: i32, digits: i32): bool {
  const start = i32(byteAt(at) === minus)
  if (count <= start || (byteAt(at + start) === digit0 && ((digits >>> (start + 1)) & 1) !== 0)) return false
  const others = ~digits & ((1 << count) - 1) & ~start
  if (others === 0) return true
  const first = ctz(others)
  return (others & (others - 1)) === 0 && byteAt(at + first) === point && first > start && first + 1 < count
}

function endOfOtherNumber(at: usize): usize {
  at = endOfInteger(at)
  if (byteAt(at) === point) at = endOfDigits(at + 1)
  if ((byteAt(at) | 0x20) !== lowerE) return at
  at++
  const sign = byteAt(at)
  return endOfDigits(sign === plus || sign === minus ? at + 1 : at)
}

@inline
function endOfInteger(at: usize): usize {
  const start = at + usize(byteAt(at) === minus)
  const end = endOfDigits(start)
  return byteAt(start) === digit0 && end !== start + 1 ? 0 : end
}

/** The end of one or more digits. */
@inline
export function endOfDigits(at: usize): usize {
  const start = at
  while (true) {
    const count = ctz(~i8x16.bitmask(areDigits(v128.load(at))))
    at += count
    if (count < 16) return at === start ? 0 : at
  }
}

@inline
function areDigits(bytes: v128): v128 {
  return i8x16.le_u(i8x16.sub(bytes, splat(digit0)), splat(9))
}

/** The end of an integer of at most 15 digits, any of which is safe. */
export function endOfSafeInteger(at: usize, mayBeNegative: bool): usize {
  const isNegative = byteAt(at) === minus
  if (isNegative && !mayBeNegative) return 0
  const end = endOfInteger(at)
  return end - at - usize(isNegative) <= 15 ? end : 0
}

/** The end of a string of `bytesMin` to `bytesMax` bytes, of null, or of an integer where one is valid. */
@inline
export function endOfText(at: usize, bytesMin: usize, bytesMax: usize, mayBeInteger: bool): usize {
  const byte = byteAt(at)
  if (byte === quote) {
    const end = endOfPlainString(at)
    return end - at - quoteBytes - bytesMin <= bytesMax - bytesMin ? end : 0
  }
  if (byte === lowerN) return endOfNull(at)
  return mayBeInteger ? endOfSafeInteger(at, true) : 0
}
