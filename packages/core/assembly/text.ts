import {
  backslash,
  carriageReturn,
  colon,
  del,
  digit0,
  digit9,
  lineFeed,
  lowerA,
  lowerB,
  lowerF,
  lowerN,
  lowerR,
  lowerT,
  lowerU,
  quote,
  slash,
  space,
  tab,
} from '../src/json/bytes.ts'

// An `endOf` function returns the position after what it reads, and 0 if it finds anything else.

@inline
export function byteAt(at: usize): i32 {
  return load<u8>(at)
}

/** Sixteen times the same byte. */
@inline
export function splat(byte: i32): v128 {
  return i8x16.splat(i8(byte))
}

/** The position of the next byte that is not whitespace. */
@inline
export function skipSpace(at: usize): usize {
  return byteAt(at) > space ? at : skipSpaces(at)
}

function skipSpaces(at: usize): usize {
  let byte = byteAt(at)
  while (byte === space || byte === lineFeed || byte === carriageReturn || byte === tab) byte = byteAt(++at)
  return at
}

/** The end of a colon and the whitespace around it. */
@inline
export function endOfColon(at: usize): usize {
  return byteAt(at) === colon && byteAt(at + 1) > space ? at + 1 : endOfSpacedColon(at)
}

function endOfSpacedColon(at: usize): usize {
  at = skipSpaces(at)
  return byteAt(at) === colon ? skipSpaces(at + 1) : 0
}

/** The end of a string without escapes. */
@inline
export function endOfPlainString(at: usize): usize {
  if (byteAt(at) !== quote) return 0
  at = skipPlain(at + 1)
  return byteAt(at) === quote ? at + 1 : 0
}

/** The end of a string without escapes and without DEL. */
@inline
export function endOfName(at: usize): usize {
  if (byteAt(at) !== quote) return 0
  at++
  while (true) {
    const bytes = v128.load(at)
    const isSpecial = v128.or(isSpecialByte(bytes), i8x16.eq(bytes, splat(del)))
    const specials = i8x16.bitmask(isSpecial)
    if (specials !== 0) {
      at += ctz(specials)
      return byteAt(at) === quote ? at + 1 : 0
    }
    at += 16
  }
}

/** The end of any string. */
@inline
export function endOfString(at: usize): usize {
  if (byteAt(at) !== quote) return 0
  at = skipPlain(at + 1)
  return byteAt(at) === quote ? at + 1 : endOfEscapedText(at)
}

function endOfEscapedText(at: usize): usize {
  while (byteAt(at) === backslash) {
    at = endOfEscape(at)
    if (at === 0) return 0
    at = skipPlain(at)
  }
  return byteAt(at) === quote ? at + 1 : 0
}

function endOfEscape(at: usize): usize {
  const byte = byteAt(at + 1)
  switch (byte) {
    case quote:
    case backslash:
    case slash:
    case lowerB:
    case lowerF:
    case lowerN:
    case lowerR:
    case lowerT:
      return at + 2
    case lowerU:
      return isHex(at + 2) && isHex(at + 3) && isHex(at + 4) && isHex(at + 5) ? at + 6 : 0
    default:
      return 0
  }
}

function isHex(at: usize): bool {
  const byte = byteAt(at)
  const lower = byte | 0x20
  return (byte >= digit0 && byte <= digit9) || (lower >= lowerA && lower <= lowerF)
}

/** The position of the next quote, backslash or control character; one follows the body. */
@inline
function skipPlain(at: usize): usize {
  while (true) {
    const specials = i8x16.bitmask(isSpecialByte(v128.load(at)))
    if (specials !== 0) return at + ctz(specials)
    at += 16
  }
}

@inline
function isSpecialByte(bytes: v128): v128 {
  const isMark = v128.or(i8x16.eq(bytes, splat(quote)), i8x16.eq(bytes, splat(backslash)))
  return v128.or(isMark, i8x16.le_u(bytes, splat(space - 1)))
}
