// Scans JSON in UTF-8 without creating its values, and accepts exactly what `JSON.parse` does: a map of 50 MB takes the
// memory of its bytes, a number keeps its spelling. Each `skip` function takes the position where something starts and
// returns the position after it.

/** Thrown where bytes are not JSON. */
export class NotJson extends Error {
  /** The position of the first byte that is wrong. */
  readonly at: number

  constructor(at: number) {
    super(`Not JSON at byte ${at}.`)
    this.at = at
  }
}

/** How far a value reaches, and how many members or elements it has itself. */
export interface Extent {
  end: number
  count: number
}

export const quote = 0x22
export const openBrace = 0x7b
export const openBracket = 0x5b
const minus = 0x2d
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const space = 0x20

/** The opening byte of each open container. All calls share it, as scanning is synchronous. */
let open = new Uint8Array(1024)

/** @throws {NotJson} */
export function measureValue(bytes: Uint8Array, from: number): Extent {
  let levels = 0
  let count = 0
  let at = from
  for (;;) {
    const byte = bytes[at] as number
    if (byte === openBrace || byte === openBracket) {
      if (levels === open.length) growOpen()
      open[levels++] = byte
      at = skipSpace(bytes, at + 1)
      if (bytes[at] !== closing(byte)) {
        if (levels === 1) count = 1
        if (byte === openBrace) at = skipName(bytes, at)
        continue
      }
      at++
      levels--
    } else at = skipScalar(bytes, at)
    for (;;) {
      if (levels === 0) return { end: at, count }
      at = skipSpace(bytes, at)
      const container = open[levels - 1] as number
      if (bytes[at] === comma) {
        if (levels === 1) count++
        at = skipSpace(bytes, at + 1)
        if (container === openBrace) at = skipName(bytes, at)
        break
      }
      if (bytes[at] !== closing(container)) throw new NotJson(at)
      at++
      levels--
    }
  }
}

function growOpen(): void {
  const larger = new Uint8Array(2 * open.length)
  larger.set(open)
  open = larger
}

export function closing(opening: number): number {
  return opening + 2
}

/** Skips a name with its colon and the space around it. */
export function skipName(bytes: Uint8Array, from: number): number {
  const at = skipSpace(bytes, skipString(bytes, from))
  if (bytes[at] !== colon) throw new NotJson(at)
  return skipSpace(bytes, at + 1)
}

function skipScalar(bytes: Uint8Array, from: number): number {
  switch (bytes[from]) {
    case quote:
      return skipString(bytes, from)
    case 0x74:
      return skipLiteral(bytes, from, 'true')
    case 0x66:
      return skipLiteral(bytes, from, 'false')
    case 0x6e:
      return skipLiteral(bytes, from, 'null')
    default:
      return skipNumber(bytes, from)
  }
}

function skipLiteral(bytes: Uint8Array, from: number, text: string): number {
  for (let i = 0; i < text.length; i++) if (bytes[from + i] !== text.charCodeAt(i)) throw new NotJson(from)
  return from + text.length
}

/** RFC 8259 section 6. */
function skipNumber(bytes: Uint8Array, from: number): number {
  const digits = bytes[from] === minus ? from + 1 : from
  let at = bytes[digits] === 0x30 ? digits + 1 : skipDigits(bytes, digits)
  if (bytes[at] === 0x2e) at = skipDigits(bytes, at + 1)
  if (bytes[at] !== 0x65 && bytes[at] !== 0x45) return at
  at++
  return skipDigits(bytes, bytes[at] === 0x2b || bytes[at] === minus ? at + 1 : at)
}

function skipDigits(bytes: Uint8Array, from: number): number {
  let at = from
  while ((bytes[at] as number) >= 0x30 && (bytes[at] as number) <= 0x39) at++
  if (at === from) throw new NotJson(at)
  return at
}

/** 1 for each byte that stands for itself in a string. */
const plain = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= space && byte !== quote && byte !== backslash ? 1 : 0,
)

export function skipString(bytes: Uint8Array, from: number): number {
  if (bytes[from] !== quote) throw new NotJson(from)
  let at = from + 1
  for (;;) {
    while (plain[bytes[at] as number] === 1) at++
    if (bytes[at] === quote) return at + 1
    if (bytes[at] !== backslash) throw new NotJson(at)
    at = skipEscape(bytes, at)
  }
}

const shortEscapes = new Set(new TextEncoder().encode('"\\/bfnrt'))

function skipEscape(bytes: Uint8Array, from: number): number {
  const byte = bytes[from + 1] as number
  if (shortEscapes.has(byte)) return from + 2
  if (byte !== 0x75) throw new NotJson(from + 1)
  for (let at = from + 2; at < from + 6; at++) if (!isHexDigit(bytes[at] as number)) throw new NotJson(at)
  return from + 6
}

function isHexDigit(byte: number): boolean {
  const lower = byte | 0x20
  return (byte >= 0x30 && byte <= 0x39) || (lower >= 0x61 && lower <= 0x66)
}

export function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from
  while (bytes[at] === space || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++
  return at
}

/**
 * The end of the first `charactersMax` characters of a string that begins at `from`, or of the string, without its
 * closing quote.
 */
export function cutString(bytes: Uint8Array, from: number, charactersMax: number): number {
  let at = from + 1
  for (let count = 0; count < charactersMax && bytes[at] !== quote; count++) {
    if (bytes[at] === backslash) at = skipEscape(bytes, at)
    // the bytes 10xxxxxx continue a character
    else
      do at++
      while (((bytes[at] as number) & 0xc0) === 0x80)
  }
  return at
}
