const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** Where one event stands in the bytes of its batch: `bytes.subarray(start, end)`. */
export interface Slice {
  start: number
  end: number
}

/**
 * Finds each event in the bytes of a batch, so that it can be kept and given back exactly as it was sent.
 *
 * `body` must have been accepted by `JSON.parse` and hold an array `events`.
 */
export function sliceEvents(body: Uint8Array): Slice[] {
  return sliceElements(body, startOf(body, 'events'))
}

/**
 * The exact bytes of a member of an object, which must have been accepted by `JSON.parse`; undefined if it has none of
 * that name. Like `JSON.parse` it lets the last of several win.
 */
export function sliceMember(object: Uint8Array, name: string): Uint8Array | undefined {
  const start = startOf(object, name)
  return start === -1 ? undefined : object.subarray(start, skipValue(object, start))
}

/** Where the value of the last member of this name starts; -1 if there is none. */
function startOf(object: Uint8Array, name: string): number {
  let start = -1
  for (let at = skipSpace(object, 1 + skipSpace(object, 0)); object[at] !== closeBrace; ) {
    const keyEnd = skipString(object, at)
    const value = skipSpace(object, 1 + skipTo(object, keyEnd, colon))
    if (JSON.parse(asText(object, at, keyEnd)) === name) start = value
    at = skipSpace(object, skipValue(object, value))
    if (object[at] === comma) at = skipSpace(object, at + 1)
  }
  return start
}

/** The text of one slice. */
export function asText(body: Uint8Array, start: number, end: number): string {
  return Buffer.from(body.buffer, body.byteOffset + start, end - start).toString()
}

function sliceElements(body: Uint8Array, array: number): Slice[] {
  const slices: Slice[] = []
  for (let at = skipSpace(body, array + 1); body[at] !== closeBracket; ) {
    const end = skipValue(body, at)
    slices.push({ start: at, end })
    at = skipSpace(body, end)
    if (body[at] === comma) at = skipSpace(body, at + 1)
  }
  return slices
}

function skipSpace(body: Uint8Array, from: number): number {
  let at = from
  while ((body[at] as number) <= 0x20) at++
  return at
}

function skipTo(body: Uint8Array, from: number, byte: number): number {
  let at = from
  while (body[at] !== byte) at++
  return at
}

/** The end of the string that starts at `from`. */
function skipString(body: Uint8Array, from: number): number {
  let at = from + 1
  for (; body[at] !== quote; at++) if (body[at] === backslash) at++
  return at + 1
}

/** The end of the value that starts at `from`. */
function skipValue(body: Uint8Array, from: number): number {
  const first = body[from]
  if (first === quote) return skipString(body, from)
  if (first === openBrace || first === openBracket) return skipNested(body, from)
  let at = from
  while (!endsScalar(body[at] as number)) at++
  return at
}

function endsScalar(byte: number): boolean {
  return byte === comma || byte === closeBrace || byte === closeBracket || byte <= 0x20
}

function skipNested(body: Uint8Array, from: number): number {
  let depth = 0
  for (let at = from; ; at++) {
    const byte = body[at] as number
    if (byte === quote) at = skipString(body, at) - 1
    else if (byte === openBrace || byte === openBracket) depth++
    else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return at + 1
  }
}
