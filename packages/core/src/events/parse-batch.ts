import type { Slice } from '../json/json-scanner.ts'
import { malformedBody } from '../json/parse-json.ts'
import { pointer } from '../validation.ts'
import { batchEventsMax, invalidEnvelope, tooManyEvents } from './batch.ts'
import { eventDepthMax, type JsonObject, knownFields } from './event.ts'

/** An event of a batch: what is needed to decide its outcome. */
export interface ParsedEvent extends Slice {
  /**
   * Its well-known members, the last of each name; objects and arrays without their content. Undefined for an event
   * that is not an object.
   */
  event: JsonObject | undefined
  /** A JSON Pointer to the first value that nests too deep; undefined without one. */
  tooDeepAt?: string
}

/**
 * The events of a batch of any content, in one pass over its bytes. It accepts exactly what `JSON.parse` does, but
 * creates no values for unused members: an object of many distinct keys costs `JSON.parse` twenty times as much as
 * other JSON of its size. Depth is that of the bytes, also inside a member that a later one of the same name replaces.
 *
 * `body` must be UTF-8.
 *
 * @throws {IngestError} `malformed-body` for what is not JSON, `invalid-envelope` without an array `events`,
 *   `too-many-events` over 100 of them.
 */
export function parseBatch(body: Buffer): ParsedEvent[] {
  const scan: Scan = { body, open: openOf(body.length), levelsMost: 0 }
  let events: ParsedEvent[] | undefined
  let count = 0
  const start = skipSpace(body, 0)
  const isObject = body[start] === openBrace
  const end = isObject ? skipMembers(body, start, skipMember) : skipValue(scan, start)
  if (skipSpace(body, end) !== body.length) throw malformedBody()
  if (events === undefined) throw invalidEnvelope(isObject)
  if (count > batchEventsMax) throw tooManyEvents(count)
  return events

  function skipMember(keyStart: number, keyEnd: number, valueStart: number): number {
    if (!spells(body, keyStart, keyEnd, 'events')) return skipValue(scan, valueStart)
    // the last of several counts
    events = undefined
    count = 0
    if (body[valueStart] !== openBracket) return skipValue(scan, valueStart)
    const parsed: ParsedEvent[] = []
    events = parsed
    return skipElements(body, valueStart, (elementStart) => {
      if (++count > batchEventsMax) return skipValue(scan, elementStart)
      const event = parseEvent(scan, elementStart)
      parsed.push(event)
      return event.end
    })
  }
}

/** The well-known members of a stored event, as in {@link ParsedEvent}. */
export function wellKnownOf(event: Buffer): JsonObject {
  return parseEvent({ body: event, open: openOf(event.length), levelsMost: 0 }, 0).event ?? {}
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

interface Scan {
  body: Buffer
  /** The opening byte of each container that is open. */
  open: Uint8Array
  /** The deepest nesting since this was last set to zero. */
  levelsMost: number
}

let openSpare = new Uint8Array(1024)

/** Shared by all calls, as parsing is synchronous. */
function openOf(levels: number): Uint8Array {
  if (openSpare.length < levels) openSpare = new Uint8Array(levels)
  return openSpare
}

/** The end of the array at `from`; `skipElement` gets the start of each element, and returns its end. */
function skipElements(body: Buffer, from: number, skipElement: (start: number) => number): number {
  let at = skipSpace(body, from + 1)
  if (body[at] === closeBracket) return at + 1
  for (;;) {
    at = skipSpace(body, skipElement(at))
    if (body[at] === closeBracket) return at + 1
    at = skipComma(body, at)
  }
}

/** The end of the object at `from`; `skipMember` gets each key and the start of its value, and returns its end. */
function skipMembers(
  body: Buffer,
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

const names = ['projectId', 'eventId', ...knownFields.map(({ name }) => name)]

function parseEvent(scan: Scan, start: number): ParsedEvent {
  const { body } = scan
  if (body[start] !== openBrace) return { event: undefined, start, end: skipValue(scan, start) }
  /** Where the value of each known member starts and ends: the last of its name. */
  const values = new Int32Array(2 * names.length)
  let deepFrom = -1
  const end = skipMembers(body, start, (keyStart, keyEnd, valueStart) => {
    const known = knownAt(body, keyStart, keyEnd)
    scan.levelsMost = 0
    const valueEnd = skipValue(scan, valueStart)
    if (known !== -1) values.set([valueStart, valueEnd], 2 * known)
    // the event itself is the first level
    if (deepFrom === -1 && scan.levelsMost >= eventDepthMax) deepFrom = valueStart
    return valueEnd
  })
  const parsed = { event: eventOf(body, values), start, end }
  return deepFrom === -1 ? parsed : { ...parsed, tooDeepAt: tooDeepPath(body, start, deepFrom) }
}

function eventOf(body: Buffer, values: Int32Array): JsonObject {
  const event: JsonObject = {}
  for (let i = 0; i < names.length; i++) {
    const [start, end] = [values[2 * i] as number, values[2 * i + 1] as number]
    if (end > 0) event[names[i] as string] = valueAt(body, start, end)
  }
  return event
}

function valueAt(body: Buffer, start: number, end: number): unknown {
  const first = body[start]
  if (first === openBrace) return {}
  if (first === openBracket) return []
  return JSON.parse(body.toString('utf8', start, end))
}

/** The known members by the length and the first byte of their names, which no two share. */
const knownBySlot = new Map(names.map((name, i) => [slotOf(name.length, name.charCodeAt(0)), i]))
const lengthMax = Math.max(...names.map(({ length }) => length))

function slotOf(length: number, first: number): number {
  return (length << 8) | first
}

/** The index of the known member that a key, from its first quote to behind the last, names; -1 for none. */
function knownAt(body: Buffer, start: number, end: number): number {
  const length = end - start - 2
  const known = length > lengthMax ? undefined : knownBySlot.get(slotOf(length, body[start + 1] as number))
  if (known !== undefined && isAt(body, start + 1, names[known] as string)) return known
  if (length > lengthMax * escapeBytes || !hasEscape(body, start, end)) return -1
  return names.findIndex((name) => spells(body, start, end, name))
}

function hasEscape(body: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (body[at] === backslash) return true
  return false
}

/** The length of `\u0065`. */
const escapeBytes = 6

/** Whether a key, from its first quote to behind the last, is this ASCII name, with escapes or without. */
function spells(body: Buffer, start: number, end: number, name: string): boolean {
  let at = start + 1
  for (let i = 0; i < name.length; i++) {
    const isEscape = body[at] === backslash
    if ((isEscape ? codeOf(body, at) : body[at]) !== name.charCodeAt(i)) return false
    at += isEscape ? escapeBytes : 1
  }
  return at === end - 1
}

/** The ASCII character that `\u0065` stands for, or -1; no letter of a name has a shorter escape. */
function codeOf(body: Buffer, at: number): number {
  if (body[at + 1] !== 0x75 /* u */ || body[at + 2] !== 0x30 /* 0 */ || body[at + 3] !== 0x30) return -1
  return (hexOf(body[at + 4] as number) << 4) | hexOf(body[at + 5] as number)
}

function hexOf(digit: number): number {
  return digit <= 0x39 /* 9 */ ? digit - 0x30 : (digit | 0x20) - 0x61 + 10
}

function isAt(body: Buffer, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (body[at + i] !== text.charCodeAt(i)) return false
  return true
}

/** A JSON Pointer to the value that is one level too deep, in an event that is JSON; it is behind `from`. */
function tooDeepPath(body: Buffer, start: number, from: number): string {
  /** The element or the key of each open container. */
  const steps: (number | Slice)[] = []
  let isKeyNext = false
  for (let at = start; ; ) {
    const byte = body[at]
    if (byte === openBrace || byte === openBracket) {
      if (steps.length === eventDepthMax && at >= from) break
      steps.push(byte === openBracket ? 0 : { start: 0, end: 0 })
      isKeyNext = byte === openBrace
      at++
    } else if (byte === closeBrace || byte === closeBracket) {
      steps.pop()
      isKeyNext = false
      at++
    } else if (byte === comma) {
      const last = steps.length - 1
      const step = steps[last]
      isKeyNext = typeof step !== 'number'
      if (typeof step === 'number') steps[last] = step + 1
      at++
    } else if (byte === quote) {
      const end = skipString(body, at)
      if (isKeyNext) steps[steps.length - 1] = { start: at, end }
      isKeyNext = false
      at = end
    } else at++
  }
  return steps.reduce<string>(
    (path, step) =>
      pointer(path, typeof step === 'number' ? step : JSON.parse(body.toString('utf8', step.start, step.end))),
    '',
  )
}

/** The end of the value that starts at `from`. Not recursive, so any depth is safe. */
function skipValue(scan: Scan, from: number): number {
  const { body, open } = scan
  let levels = 0
  let at = from
  for (;;) {
    const byte = body[at] as number
    if (byte === openBrace || byte === openBracket) {
      open[levels++] = byte
      if (levels > scan.levelsMost) scan.levelsMost = levels
      at = skipSpace(body, at + 1)
      if (body[at] !== closeOf(byte)) {
        if (byte === openBrace) at = skipColon(body, skipString(body, at))
        continue
      }
      at++
      levels--
    } else at = skipScalar(body, at)
    for (;;) {
      if (levels === 0) return at
      at = skipSpace(body, at)
      const container = open[levels - 1] as number
      if (body[at] === comma) {
        at = skipSpace(body, at + 1)
        if (container === openBrace) at = skipColon(body, skipString(body, at))
        break
      }
      if (body[at] !== closeOf(container)) throw malformedBody()
      at++
      levels--
    }
  }
}

function closeOf(open: number): number {
  return open + 2
}

function skipScalar(body: Buffer, from: number): number {
  switch (body[from]) {
    case quote:
      return skipString(body, from)
    case 0x74 /* t */:
      return skipLiteral(body, from, 'true')
    case 0x66 /* f */:
      return skipLiteral(body, from, 'false')
    case 0x6e /* n */:
      return skipLiteral(body, from, 'null')
    default:
      return skipNumber(body, from)
  }
}

function skipLiteral(body: Buffer, from: number, text: string): number {
  if (!isAt(body, from, text)) throw malformedBody()
  return from + text.length
}

/** RFC 8259 section 6. */
function skipNumber(body: Buffer, from: number): number {
  let at = body[from] === 0x2d /* - */ ? from + 1 : from
  at = body[at] === 0x30 /* 0 */ ? at + 1 : skipDigits(body, at)
  if (body[at] === 0x2e /* . */) at = skipDigits(body, at + 1)
  if (((body[at] as number) | 0x20) !== 0x65 /* e */) return at
  at++
  return skipDigits(body, body[at] === 0x2b /* + */ || body[at] === 0x2d /* - */ ? at + 1 : at)
}

function skipDigits(body: Buffer, from: number): number {
  let at = from
  while ((body[at] as number) >= 0x30 && (body[at] as number) <= 0x39) at++
  if (at === from) throw malformedBody()
  return at
}

/** 1 for each byte that stands in a string as itself. */
const isPlain = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte !== quote && byte !== backslash ? 1 : 0,
)

/** The end of the string that starts at `from`, behind its quote. */
function skipString(body: Buffer, from: number): number {
  if (body[from] !== quote) throw malformedBody()
  const plain = isPlain
  let at = from + 1
  for (;;) {
    while (plain[body[at] as number] === 1) at++
    const byte = body[at]
    if (byte === quote) return at + 1
    if (byte !== backslash) throw malformedBody()
    at = skipEscape(body, at)
  }
}

const simpleEscapes = new Set(Buffer.from('"\\/bfnrt'))

function skipEscape(body: Buffer, from: number): number {
  const byte = body[from + 1] as number
  if (simpleEscapes.has(byte)) return from + 2
  if (byte !== 0x75 /* u */) throw malformedBody()
  for (let at = from + 2; at < from + 6; at++) if (!isHexDigit(body[at] as number)) throw malformedBody()
  return from + 6
}

function isHexDigit(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66)
}

function skipSpace(body: Buffer, from: number): number {
  let at = from
  for (;;) {
    const byte = body[at] as number
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) return at
    at++
  }
}

/** The start of the value behind the colon that is the first byte that is no space from `from` on. */
function skipColon(body: Buffer, from: number): number {
  const at = skipSpace(body, from)
  if (body[at] !== colon) throw malformedBody()
  return skipSpace(body, at + 1)
}

function skipComma(body: Buffer, at: number): number {
  if (body[at] !== comma) throw malformedBody()
  return skipSpace(body, at + 1)
}
