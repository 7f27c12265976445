import {
  backslash,
  carriageReturn,
  closeBrace,
  closeBracket,
  colon,
  comma,
  digit0,
  digit9,
  lineFeed,
  lowerA,
  lowerE,
  lowerF,
  lowerN,
  lowerT,
  lowerU,
  minus,
  openBrace,
  openBracket,
  plus,
  point,
  quote,
  space,
  tab,
} from './bytes.ts'
import { malformedBody } from './parse-json.ts'

// Scans JSON in UTF-8 without creating its values. Accepts exactly what `JSON.parse` does. Each `skip` function takes
// the start of a value or token, returns the position after it, and throws `malformed-body`.

/** A range of bytes: `body.subarray(start, end)`. */
export interface Slice {
  start: number
  end: number
}

/** The exact bytes of a member of a JSON object, the last of its name; undefined if there is none. `name` is ASCII. */
export function sliceMember(object: Uint8Array, name: string): Uint8Array | undefined {
  let value: Uint8Array | undefined
  skipMembers(object, skipSpace(object, 0), (keyStart, keyEnd, valueStart) => {
    const valueEnd = skipValue(object, valueStart)
    if (isKey(object, keyStart, keyEnd, name)) value = object.subarray(valueStart, valueEnd)
    return valueEnd
  })
  return value
}

/** The names of the members of a JSON object, in order, repeats included. */
export function memberNames(object: Uint8Array): string[] {
  const names: string[] = []
  skipMembers(object, skipSpace(object, 0), (keyStart, keyEnd, valueStart) => {
    names.push(JSON.parse(Buffer.from(object.subarray(keyStart, keyEnd)).toString()))
    return skipValue(object, valueStart)
  })
  return names
}

/** Skips an object. `skipMember` receives the range of each key, quotes included, and must skip the value. */
export function skipMembers(
  body: Uint8Array,
  from: number,
  skipMember: (keyStart: number, keyEnd: number, valueStart: number) => number,
): number {
  let at = skipSpace(body, from + 1)
  if (body[at] === closeBrace) return at + 1
  for (;;) {
    const keyEnd = skipString(body, at)
    at = skipSpace(body, skipMember(at, keyEnd, skipColon(body, keyEnd)))
    if (body[at] === closeBrace) return at + 1
    at = skipComma(body, at)
  }
}

/** Skips an array. `skipElement` receives the start of each element. */
export function skipElements(body: Uint8Array, from: number, skipElement: (start: number) => number): number {
  let at = skipSpace(body, from + 1)
  if (body[at] === closeBracket) return at + 1
  for (;;) {
    at = skipSpace(body, skipElement(at))
    if (body[at] === closeBracket) return at + 1
    at = skipComma(body, at)
  }
}

/** Maximum nesting depth of the skipped values; a scalar has no levels. */
export interface Depth {
  levelsMost: number
}

/** The opening byte of each open container. All calls share it, as scanning is synchronous. */
let open = new Uint8Array(1024)

/** Not recursive, so that any depth is safe. */
export function skipValue(body: Uint8Array, from: number, depth?: Depth): number {
  let levels = 0
  let levelsMost = 0
  let at = from
  for (;;) {
    const byte = body[at] as number
    if (byte === openBrace || byte === openBracket) {
      if (levels === open.length) growOpen()
      open[levels++] = byte
      if (levels > levelsMost) levelsMost = levels
      at = skipSpace(body, at + 1)
      if (body[at] !== closing(byte)) {
        if (byte === openBrace) at = skipColon(body, skipString(body, at))
        continue
      }
      at++
      levels--
    } else at = skipScalar(body, at)
    for (;;) {
      if (levels === 0) {
        if (depth !== undefined && levelsMost > depth.levelsMost) depth.levelsMost = levelsMost
        return at
      }
      at = skipSpace(body, at)
      const container = open[levels - 1] as number
      if (body[at] === comma) {
        at = skipSpace(body, at + 1)
        if (container === openBrace) at = skipColon(body, skipString(body, at))
        break
      }
      if (body[at] !== closing(container)) throw malformedBody()
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

function closing(opening: number): number {
  return opening + 2
}

function skipScalar(body: Uint8Array, from: number): number {
  switch (body[from]) {
    case quote:
      return skipString(body, from)
    case lowerT:
      return skipLiteral(body, from, 'true')
    case lowerF:
      return skipLiteral(body, from, 'false')
    case lowerN:
      return skipLiteral(body, from, 'null')
    default:
      return skipNumber(body, from)
  }
}

function skipLiteral(body: Uint8Array, from: number, text: string): number {
  if (!isAt(body, from, text)) throw malformedBody()
  return from + text.length
}

/** RFC 8259 section 6. */
function skipNumber(body: Uint8Array, from: number): number {
  let at = body[from] === minus ? from + 1 : from
  at = body[at] === digit0 ? at + 1 : skipDigits(body, at)
  if (body[at] === point) at = skipDigits(body, at + 1)
  if (toLower(body[at] as number) !== lowerE) return at
  at++
  return skipDigits(body, body[at] === plus || body[at] === minus ? at + 1 : at)
}

function skipDigits(body: Uint8Array, from: number): number {
  let at = from
  while ((body[at] as number) >= digit0 && (body[at] as number) <= digit9) at++
  if (at === from) throw malformedBody()
  return at
}

/** 1 for each byte that needs no escape in a string. */
const unescapedBytes = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= space && byte !== quote && byte !== backslash ? 1 : 0,
)

export function skipString(body: Uint8Array, from: number): number {
  if (body[from] !== quote) throw malformedBody()
  const unescaped = unescapedBytes
  let at = from + 1
  for (;;) {
    while (unescaped[body[at] as number] === 1) at++
    const byte = body[at]
    if (byte === quote) return at + 1
    if (byte !== backslash) throw malformedBody()
    at = skipEscape(body, at)
  }
}

/** The bytes that follow the backslash of a two-byte escape. */
const shortEscapes: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'))

function skipEscape(body: Uint8Array, from: number): number {
  const byte = body[from + 1] as number
  if (shortEscapes.has(byte)) return from + 2
  if (byte !== lowerU) throw malformedBody()
  const end = from + unicodeEscapeBytes
  for (let at = from + 2; at < end; at++) if (!isHexDigit(body[at] as number)) throw malformedBody()
  return end
}

function isHexDigit(byte: number): boolean {
  return (byte >= digit0 && byte <= digit9) || (toLower(byte) >= lowerA && toLower(byte) <= lowerF)
}

export function skipSpace(body: Uint8Array, from: number): number {
  let at = from
  for (;;) {
    const byte = body[at] as number
    if (byte > space || (byte !== space && byte !== lineFeed && byte !== carriageReturn && byte !== tab)) return at
    at++
  }
}

/** Skips a colon and the space around it. */
function skipColon(body: Uint8Array, from: number): number {
  const at = skipSpace(body, from)
  if (body[at] !== colon) throw malformedBody()
  return skipSpace(body, at + 1)
}

/** Skips a comma and the whitespace after it. */
function skipComma(body: Uint8Array, at: number): number {
  if (body[at] !== comma) throw malformedBody()
  return skipSpace(body, at + 1)
}

/** The bytes of `\u0065`. */
export const unicodeEscapeBytes = 6

/** Whether a key, quotes included, is this ASCII name, with escapes or without. */
export function isKey(body: Uint8Array, start: number, end: number, name: string): boolean {
  let at = start + 1
  for (let i = 0; i < name.length; i++) {
    const isEscape = body[at] === backslash
    if ((isEscape ? unescapeAscii(body, at) : body[at]) !== name.charCodeAt(i)) return false
    at += isEscape ? unicodeEscapeBytes : 1
  }
  return at === end - 1
}

/** The ASCII character of `\u0065`, or -1; no letter of a name has a shorter escape. */
function unescapeAscii(body: Uint8Array, at: number): number {
  if (body[at + 1] !== lowerU || body[at + 2] !== digit0 || body[at + 3] !== digit0) return -1
  return (hexValue(body[at + 4] as number) << 4) | hexValue(body[at + 5] as number)
}

function hexValue(digit: number): number {
  return digit <= digit9 ? digit - digit0 : toLower(digit) - lowerA + 10
}

/** Maps letters to lower case; no other byte becomes a letter. */
function toLower(byte: number): number {
  return byte | 0x20
}

export function isAt(body: Uint8Array, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (body[at + i] !== text.charCodeAt(i)) return false
  return true
}
