import { isAscii } from 'node:buffer'
import {
  backslash,
  carriageReturn,
  closeBrace,
  closeBracket,
  colon,
  comma,
  del,
  digit0,
  digit9,
  lineFeed,
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
  upperE,
} from '../json/bytes.ts'
import { isHexDigit, shortEscapes, unescapedBytes } from '../json/json-scanner.ts'
import { isTimestamp } from '../validation.ts'
import { batchEventsMax } from './batch.ts'
import { type AppendEvent, type BatchEvents, encodeEvents } from './batch-events.ts'
import { splitRepeats } from './classify-events.ts'
import { eventDepthMax, eventIdBytesMax, type KnownField, knownFields } from './event.ts'

// An `endOf` function returns -1 where nothing ends that this scanner knows.

/**
 * The events of a batch of valid events in the usual form, in one pass: a third of the time of `JSON.parse` and the
 * checks after it. Undefined for any other batch, such as one with an invalid event or an escape in a known member:
 * `parseBatch` and `classifyEvents` decide it. They would return the same events for every batch that is accepted here.
 *
 * `body` must be UTF-8.
 */
export function scanBatch(body: Buffer, projectId: string, hashKey: Uint8Array): BatchEvents | undefined {
  const events = scanEvents(body, projectId)
  if (!events || splitRepeats(events).repeated.length > 0) return undefined
  return encodeEvents(events, hashKey)
}

function scanEvents(body: Buffer, projectId: string): AppendEvent[] | undefined {
  // rare, and invalid in a name
  if (body.includes(del)) return undefined
  // other members of the envelope are rare, and one might be a second `events`
  let at = skip(body, 0, openBrace)
  if (at === -1 || !isAt(body, at, eventsKey)) return undefined
  at = skip(body, at + eventsKey.length, colon)
  if (body[at] !== openBracket) return undefined
  at = skipSpace(body, at + 1)
  const context = {
    body,
    text: body.toString('latin1'),
    isAscii: isAscii(body),
    hasEscapes: body.includes(backslash),
    projectId: Buffer.from(projectId),
  }
  const events: AppendEvent[] = []
  let isEnd = body[at] === closeBracket
  while (!isEnd) {
    const event = scanEvent(context, at)
    if (event === undefined || events.push(event) > batchEventsMax) return undefined
    at = skipSpace(body, event.end)
    isEnd = body[at] === closeBracket
    if (!isEnd) at = skip(body, at, comma)
  }
  return skip(body, at + 1, closeBrace) === body.length ? events : undefined
}

const eventsKey = Buffer.from('"events"')

interface Context {
  body: Buffer
  /** One character for each byte of the body, at the same index. */
  text: string
  isAscii: boolean
  hasEscapes: boolean
  projectId: Buffer
}

function scanEvent(context: Context, start: number): AppendEvent | undefined {
  const { body } = context
  let eventId: string | undefined
  let buildId: string | undefined
  let [idStart, idEnd] = [0, 0]
  let seen = 0
  for (let at = skip(body, start, openBrace); ; at = skip(body, at, comma)) {
    if (body[at] !== quote) return undefined
    const keyStart = at + 1
    const keyEnd = endOfPlainText(body, keyStart)
    at = skip(body, keyEnd + 1, colon)
    const end = keyEnd === -1 || at === -1 ? -1 : endOfValue(body, at, eventDepthMax - 1)
    if (end === -1) return undefined
    const member = findMember(body, keyStart, keyEnd)
    if (member !== undefined) {
      // the last of two members wins: left to parseBatch
      if ((seen & member.bit) !== 0 || !isAllowed(context, member, at, end)) return undefined
      seen |= member.bit
      if (member === eventIdMember) {
        eventId = decodeText(context, at, end)
        ;[idStart, idEnd] = [at, end]
      } else if (member === buildIdMember && body[at] === quote) buildId = decodeText(context, at, end)
    }
    at = skipSpace(body, end)
    if (body[at] === closeBrace) {
      if (eventId === undefined || (seen & projectIdMember.bit) === 0) return undefined
      const event = { eventId, start, end: at + 1, idStart, idEnd }
      return buildId === undefined ? event : { ...event, buildId }
    }
  }
}

/** A known member. */
interface Member extends KnownField {
  key: Buffer
  /** Its bit in the set `seen`. */
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
/** By length and first letter of their names, which no two share. */
const membersBySlot: (Member | undefined)[] = new Array(16 * 32).fill(undefined)
for (const member of members) membersBySlot[toSlot(member.key.length, member.key[0] as number)] = member

function toSlot(length: number, first: number): number {
  return (length << 5) | (first & 31)
}

function findMember(body: Buffer, start: number, end: number): Member | undefined {
  const slot = toSlot(end - start, body[start] as number)
  const member = slot < membersBySlot.length ? membersBySlot[slot] : undefined
  return member !== undefined && isAt(body, start, member.key) ? member : undefined
}

/** Whether the value from `start` to `end` is certainly valid for its member. */
function isAllowed(context: Context, member: Member, start: number, end: number): boolean {
  const { body, text, hasEscapes, projectId } = context
  const first = body[start]
  if (first === lowerN) return member !== projectIdMember && member !== eventIdMember
  if (first !== quote) return member.integerMin !== undefined && isSmallInteger(body, start, end, member.integerMin < 0)
  const length = end - start - 2
  if (member === projectIdMember) return length === projectId.length && isAt(body, start + 1, projectId)
  if (length < member.bytesMin || length > member.bytesMax) return false
  if (member.text === 'timestamp') return isTimestamp(text.slice(start + 1, end - 1))
  return !hasEscapes || endOfPlainText(body, start + 1) === end - 1
}

/** Any integer of so many digits is safe. */
const digitsMax = 15

function isSmallInteger(body: Buffer, start: number, end: number, mayBeNegative: boolean): boolean {
  const from = body[start] === minus && mayBeNegative ? start + 1 : start
  if (end - from > digitsMax) return false
  for (let at = from; at < end; at++) if (!isDigit(body[at] as number)) return false
  return true
}

/** The string from `start` to `end`, which has no escapes. */
function decodeText({ body, text, isAscii }: Context, start: number, end: number): string {
  return isAscii ? text.slice(start + 1, end - 1) : body.toString('utf8', start + 1, end - 1)
}

function isAt(body: Buffer, at: number, expected: Buffer): boolean {
  for (let i = 0; i < expected.length; i++) if (body[at + i] !== expected[i]) return false
  return true
}

function skipSpace(body: Buffer, from: number): number {
  let at = from
  let byte = body[at] as number
  while (byte <= space && (byte === space || byte === lineFeed || byte === carriageReturn || byte === tab)) {
    byte = body[++at] as number
  }
  return at
}

/** Skips `byte` and the space around it; -1 if another byte comes first. */
function skip(body: Buffer, from: number, byte: number): number {
  // the common case: no space
  if (body[from] === byte && (body[from + 1] as number) > space) return from + 1
  const at = skipSpace(body, from)
  return body[at] === byte ? skipSpace(body, at + 1) : -1
}

/** The closing quote of the string whose text starts at `from`; -1 if it has escapes. */
function endOfPlainText(body: Buffer, from: number): number {
  const plain = unescapedBytes
  let at = from
  while (plain[body[at] as number] === 1) at++
  return body[at] === quote ? at : -1
}

/** The closing quote of the string whose text starts at `from`. */
function endOfText(body: Buffer, from: number): number {
  const plain = unescapedBytes
  let at = from
  for (;;) {
    while (plain[body[at] as number] === 1) at++
    if (body[at] === quote) return at
    if (body[at] !== backslash) return -1
    at = endOfEscape(body, at)
    if (at === -1) return -1
  }
}

function endOfEscape(body: Buffer, from: number): number {
  const byte = body[from + 1] as number
  if (shortEscapes.has(byte)) return from + 2
  if (byte !== lowerU) return -1
  for (let at = from + 2; at < from + 6; at++) if (!isHexDigit(body[at] as number)) return -1
  return from + 6
}

/** The end of the value at `from`, which may nest `levels` deep. */
function endOfValue(body: Buffer, from: number, levels: number): number {
  switch (body[from]) {
    case quote: {
      const at = endOfText(body, from + 1)
      return at === -1 ? -1 : at + 1
    }
    case openBrace:
      return levels === 0 ? -1 : endOfObject(body, from, levels)
    case openBracket:
      return levels === 0 ? -1 : endOfArray(body, from, levels)
    case lowerT:
      return isAt(body, from, trueBytes) ? from + trueBytes.length : -1
    case lowerF:
      return isAt(body, from, falseBytes) ? from + falseBytes.length : -1
    case lowerN:
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
  if (body[at] === closeBrace) return at + 1
  for (;;) {
    if (body[at] !== quote) return -1
    at = endOfText(body, at + 1)
    if (at === -1) return -1
    at = skip(body, at + 1, colon)
    if (at === -1) return -1
    at = endOfValue(body, at, levels - 1)
    if (at === -1) return -1
    at = skipSpace(body, at)
    if (body[at] === closeBrace) return at + 1
    at = skip(body, at, comma)
    if (at === -1) return -1
  }
}

function endOfArray(body: Buffer, from: number, levels: number): number {
  let at = skipSpace(body, from + 1)
  if (body[at] === closeBracket) return at + 1
  for (;;) {
    at = endOfValue(body, at, levels - 1)
    if (at === -1) return -1
    at = skipSpace(body, at)
    if (body[at] === closeBracket) return at + 1
    at = skip(body, at, comma)
    if (at === -1) return -1
  }
}

/** RFC 8259 section 6. */
function endOfNumber(body: Buffer, from: number): number {
  let at = body[from] === minus ? from + 1 : from
  at = body[at] === digit0 ? at + 1 : endOfDigits(body, at)
  if (at !== -1 && body[at] === point) at = endOfDigits(body, at + 1)
  if (at === -1 || (body[at] !== lowerE && body[at] !== upperE)) return at
  at++
  return endOfDigits(body, body[at] === plus || body[at] === minus ? at + 1 : at)
}

/** The end of one or more digits. */
function endOfDigits(body: Buffer, from: number): number {
  let at = from
  let byte = body[at] as number
  while (byte >= digit0 && byte <= digit9) byte = body[++at] as number
  return at === from ? -1 : at
}

function isDigit(byte: number): boolean {
  return byte >= digit0 && byte <= digit9
}
