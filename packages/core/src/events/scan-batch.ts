import { isAscii } from 'node:buffer'
import { batchEventsMax } from './batch.ts'
import { eventDepthMax, eventIdBytesMax, isTimestampText, type KnownField, knownFields } from './event.ts'
import type { AppendEvent } from './event-store.ts'

// Bytes stand here as numbers, as a bundler would make variables of their names, and each use would cost a load. A
// function that looks for an end answers -1 when there is none, or none that it knows.

/**
 * Reads a batch of valid events in one pass over its bytes, without making the values that nobody looks at: that takes
 * a third of the time of `JSON.parse` and the checks after it.
 *
 * It knows only the usual batch. Of anything else, be it a fault or just an escape in a member that is looked at, it
 * answers undefined, and `JSON.parse` and the checks say what it is. So it may be too careful, but what it takes they
 * would take, with the same result.
 *
 * `body` must be UTF-8.
 */
export function scanBatch(body: Buffer, projectId: string): AppendEvent[] | undefined {
  // it stands in no usual batch, and may not stand in a name
  if (body.includes(0x7f /* delete */)) return undefined
  // nor has a usual envelope other members, of which one might be a second `events`
  let at = skip(body, 0, 0x7b /* { */)
  if (at === -1 || !isAt(body, at, eventsKey)) return undefined
  at = skip(body, at + eventsKey.length, 0x3a /* : */)
  if (body[at] !== 0x5b /* [ */) return undefined
  at = skipSpace(body, at + 1)
  const context = {
    body,
    text: body.toString('latin1'),
    isAscii: isAscii(body),
    hasEscapes: body.includes(0x5c /* \ */),
    projectId: Buffer.from(projectId),
  }
  const events: AppendEvent[] = []
  let isEnd = body[at] === 0x5d /* ] */
  while (!isEnd) {
    const event = scanEvent(context, at)
    if (event === undefined || events.push(event) > batchEventsMax) return undefined
    at = skipSpace(body, event.end)
    isEnd = body[at] === 0x5d /* ] */
    if (!isEnd) at = skip(body, at, 0x2c /* , */)
  }
  return skip(body, at + 1, 0x7d /* } */) === body.length ? events : undefined
}

const eventsKey = Buffer.from('"events"')

interface Context {
  body: Buffer
  /** A character for each byte, so that a place in one is a place in the other. */
  text: string
  isAscii: boolean
  hasEscapes: boolean
  projectId: Buffer
}

function scanEvent(context: Context, start: number): AppendEvent | undefined {
  const { body } = context
  let eventId: string | undefined
  let buildId: string | undefined
  let seen = 0
  for (let at = skip(body, start, 0x7b /* { */); ; at = skip(body, at, 0x2c /* , */)) {
    if (body[at] !== 0x22 /* " */) return undefined
    const keyStart = at + 1
    const keyEnd = endOfPlainText(body, keyStart)
    at = skip(body, keyEnd + 1, 0x3a /* : */)
    const end = keyEnd === -1 || at === -1 ? -1 : endOfValue(body, at, eventDepthMax - 1)
    if (end === -1) return undefined
    const member = memberAt(body, keyStart, keyEnd)
    if (member !== undefined) {
      // the last of two would count, but that is for others to say
      if ((seen & member.bit) !== 0 || !isAllowed(context, member, at, end)) return undefined
      seen |= member.bit
      if (member === eventIdMember) eventId = textAt(context, at, end)
      else if (member === buildIdMember && body[at] === 0x22 /* " */) buildId = textAt(context, at, end)
    }
    at = skipSpace(body, end)
    if (body[at] === 0x7d /* } */) {
      if (eventId === undefined || (seen & projectIdMember.bit) === 0) return undefined
      return buildId === undefined ? { eventId, start, end: at + 1 } : { eventId, buildId, start, end: at + 1 }
    }
  }
}

/** A member of an event whose value is looked at. */
interface Member extends KnownField {
  key: Buffer
  /** Its place in the set of those that were seen. */
  bit: number
}

const members = [
  { name: 'projectId', text: 'any', bytesMin: 1, bytesMax: 64 } satisfies KnownField,
  { name: 'eventId', text: 'name', bytesMin: 1, bytesMax: eventIdBytesMax } satisfies KnownField,
  ...knownFields,
].map((field, i): Member => ({ ...field, key: Buffer.from(field.name), bit: 1 << i }))
const [eventIdMember, projectIdMember, buildIdMember] = ['eventId', 'projectId', 'buildId'].map(
  (name) => members.find((member) => member.name === name) as Member,
) as [Member, Member, Member]
/** By the length and the first letter of their names, of which no two have the same. */
const membersBySlot: (Member | undefined)[] = new Array(16 * 32).fill(undefined)
for (const member of members) membersBySlot[slotOf(member.key.length, member.key[0] as number)] = member

function slotOf(length: number, first: number): number {
  return (length << 5) | (first & 31)
}

function memberAt(body: Buffer, start: number, end: number): Member | undefined {
  const slot = slotOf(end - start, body[start] as number)
  const member = slot < membersBySlot.length ? membersBySlot[slot] : undefined
  return member !== undefined && isAt(body, start, member.key) ? member : undefined
}

/** Whether the value from `start` to `end` keeps the rule of its member beyond doubt. */
function isAllowed(context: Context, member: Member, start: number, end: number): boolean {
  const { body, text, hasEscapes, projectId } = context
  const first = body[start]
  if (first === 0x6e /* n */) return member !== projectIdMember && member !== eventIdMember
  if (first !== 0x22 /* " */)
    return member.integerMin !== undefined && isSmallInteger(body, start, end, member.integerMin < 0)
  const length = end - start - 2
  if (member === projectIdMember) return length === projectId.length && isAt(body, start + 1, projectId)
  if (length < member.bytesMin || length > member.bytesMax) return false
  if (member.text === 'timestamp') return isTimestampText(text.slice(start + 1, end - 1))
  return !hasEscapes || endOfPlainText(body, start + 1) === end - 1
}

/** So many digits are safe whatever they are, and no zero stands before them. */
const digitsMax = 15

function isSmallInteger(body: Buffer, start: number, end: number, mayBeNegative: boolean): boolean {
  const from = body[start] === 0x2d /* - */ && mayBeNegative ? start + 1 : start
  if (end - from > digitsMax) return false
  for (let at = from; at < end; at++) if (!isDigit(body[at] as number)) return false
  return true
}

/** The string that stands from `start` to `end`, which holds no escapes. */
function textAt({ body, text, isAscii }: Context, start: number, end: number): string {
  return isAscii ? text.slice(start + 1, end - 1) : body.toString('utf8', start + 1, end - 1)
}

function isAt(body: Buffer, at: number, expected: Buffer): boolean {
  for (let i = 0; i < expected.length; i++) if (body[at + i] !== expected[i]) return false
  return true
}

function skipSpace(body: Buffer, from: number): number {
  let at = from
  let byte = body[at] as number
  while (
    byte <= 0x20 /* space */ &&
    (byte === 0x20 /* space */ || byte === 0x0a /* \n */ || byte === 0x0d /* \r */ || byte === 0x09) /* \t */
  ) {
    byte = body[++at] as number
  }
  return at
}

/** The first place that is no space behind `byte`, which must be the first that is no space from `from` on. */
function skip(body: Buffer, from: number, byte: number): number {
  // mostly there is no space at all
  if (body[from] === byte && (body[from + 1] as number) > 0x20 /* space */) return from + 1
  const at = skipSpace(body, from)
  return body[at] === byte ? skipSpace(body, at + 1) : -1
}

/** 1 for each byte that stands in a string as itself. */
const isPlain = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 /* space */ && byte !== 0x22 /* " */ && byte !== 0x5c /* \ */ ? 1 : 0,
)

/** Where the quote is that ends the text from `from` on, which holds no escapes. */
function endOfPlainText(body: Buffer, from: number): number {
  const plain = isPlain
  let at = from
  while (plain[body[at] as number] === 1) at++
  return body[at] === 0x22 /* " */ ? at : -1
}

/** Where the quote is that ends the text from `from` on. */
function endOfText(body: Buffer, from: number): number {
  const plain = isPlain
  let at = from
  for (;;) {
    while (plain[body[at] as number] === 1) at++
    if (body[at] === 0x22 /* " */) return at
    if (body[at] !== 0x5c /* \ */) return -1
    at = endOfEscape(body, at)
    if (at === -1) return -1
  }
}

const simpleEscapes = new Set(Buffer.from('"\\/bfnrt'))

function endOfEscape(body: Buffer, from: number): number {
  const byte = body[from + 1] as number
  if (simpleEscapes.has(byte)) return from + 2
  if (byte !== 0x75 /* u */) return -1
  for (let at = from + 2; at < from + 6; at++) if (!isHexDigit(body[at] as number)) return -1
  return from + 6
}

/** Where the value that starts at `from` ends; it may nest `levels` deep. */
function endOfValue(body: Buffer, from: number, levels: number): number {
  switch (body[from]) {
    case 0x22 /* " */:
      {
        const at = endOfText(body, from + 1)
        return at === -1 ? -1 : at + 1
      }
    case 0x7b /* { */:
      return levels === 0 ? -1 : endOfObject(body, from, levels)
    case 0x5b /* [ */:
      return levels === 0 ? -1 : endOfArray(body, from, levels)
    case 0x74 /* t */:
      return isAt(body, from, trueBytes) ? from + trueBytes.length : -1
    case 0x66 /* f */:
      return isAt(body, from, falseBytes) ? from + falseBytes.length : -1
    case 0x6e /* n */:
      return isAt(body, from, nullBytes) ? from + nullBytes.length : -1
    default:
      return endOfNumber(body, from)
  }
}

const trueBytes = Buffer.from('true')
const falseBytes = Buffer.from('false')
const nullBytes = Buffer.from('null')

function endOfObject(body: Buffer, from: number, levels: number): number {
  let at = skipSpace(body, from + 1)
  if (body[at] === 0x7d /* } */) return at + 1
  for (;;) {
    if (body[at] !== 0x22 /* " */) return -1
    at = endOfText(body, at + 1)
    if (at === -1) return -1
    at = skip(body, at + 1, 0x3a /* : */)
    if (at === -1) return -1
    at = endOfValue(body, at, levels - 1)
    if (at === -1) return -1
    at = skipSpace(body, at)
    if (body[at] === 0x7d /* } */) return at + 1
    at = skip(body, at, 0x2c /* , */)
    if (at === -1) return -1
  }
}

function endOfArray(body: Buffer, from: number, levels: number): number {
  let at = skipSpace(body, from + 1)
  if (body[at] === 0x5d /* ] */) return at + 1
  for (;;) {
    at = endOfValue(body, at, levels - 1)
    if (at === -1) return -1
    at = skipSpace(body, at)
    if (body[at] === 0x5d /* ] */) return at + 1
    at = skip(body, at, 0x2c /* , */)
    if (at === -1) return -1
  }
}

/** RFC 8259 section 6. */
function endOfNumber(body: Buffer, from: number): number {
  let at = body[from] === 0x2d /* - */ ? from + 1 : from
  at = body[at] === 0x30 /* 0 */ ? at + 1 : endOfDigits(body, at)
  if (at !== -1 && body[at] === 0x2e /* . */) at = endOfDigits(body, at + 1)
  if (at === -1 || (body[at] !== 0x65 /* e */ && body[at] !== 0x45) /* E */) return at
  at++
  return endOfDigits(body, body[at] === 0x2b /* + */ || body[at] === 0x2d /* - */ ? at + 1 : at)
}

/** Where the digits from `from` on end, of which there must be one. */
function endOfDigits(body: Buffer, from: number): number {
  let at = from
  let byte = body[at] as number
  while (byte >= 0x30 /* 0 */ && byte <= 0x39 /* 9 */) byte = body[++at] as number
  return at === from ? -1 : at
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 /* 0 */ && byte <= 0x39 /* 9 */
}

function isHexDigit(byte: number): boolean {
  return isDigit(byte) || ((byte | 0x20) >= 0x61 /* a */ && (byte | 0x20) <= 0x66) /* f */
}
