import { backslash, openBrace, openBracket, quote } from '../json/bytes.ts'
import {
  type Depth,
  isAt,
  isKey,
  type Slice,
  skipElements,
  skipMembers,
  skipSpace,
  skipValue,
  unicodeEscapeBytes,
} from '../json/json-scanner.ts'
import { malformedBody } from '../json/parse-json.ts'
import { type JsonObject, pointerOf } from '../validation.ts'
import { batchEventsMax, invalidEnvelope, tooManyEvents } from './batch.ts'
import { eventDepthMax } from './event.ts'
import { knownFields } from './known-fields.ts'

/** An event of a batch, as parsed for classification. */
export interface ParsedEvent extends Slice {
  /**
   * Its well-known members, the last of each name; objects and arrays without their content. Undefined for an event
   * that is not an object.
   */
  event: JsonObject | undefined
  /** Start and end of the value of its `eventId`, quotes included; 0 if it has none. */
  idStart: number
  idEnd: number
  /** A JSON Pointer to the first value that exceeds the depth limit; undefined if all values are within it. */
  tooDeepAt?: string
}

/**
 * The events of a batch, in one pass over its bytes. Accepts exactly what `JSON.parse` does, but creates no values for
 * unused members: an object of many distinct keys costs `JSON.parse` twenty times as much as other JSON of its size.
 * Nesting depth counts in every member, even in one that a later member of the same name replaces.
 *
 * `body` must be UTF-8.
 *
 * @throws {IngestError} `malformed-body` if it is not JSON, `invalid-envelope` if it has no array `events`,
 *   `too-many-events` for more than 100
 */
export function parseBatch(body: Buffer): ParsedEvent[] {
  let events: ParsedEvent[] | undefined
  let count = 0
  const start = skipSpace(body, 0)
  const isObject = body[start] === openBrace
  const end = isObject ? skipMembers(body, start, skipMember) : skipValue(body, start)
  if (skipSpace(body, end) !== body.length) throw malformedBody()
  if (events === undefined) throw invalidEnvelope(isObject)
  if (count > batchEventsMax) throw tooManyEvents(count)
  return events

  function skipMember(keyStart: number, keyEnd: number, valueStart: number): number {
    if (!isKey(body, keyStart, keyEnd, 'events')) return skipValue(body, valueStart)
    // the last member of this name wins
    events = undefined
    count = 0
    if (body[valueStart] !== openBracket) return skipValue(body, valueStart)
    const parsed: ParsedEvent[] = []
    events = parsed
    return skipElements(body, valueStart, (elementStart) => {
      if (++count > batchEventsMax) return skipValue(body, elementStart)
      const event = parseEvent(body, elementStart)
      parsed.push(event)
      return event.end
    })
  }
}

/** The well-known members of an event that is valid JSON, as in {@link ParsedEvent}. */
export function parseKnownMembers(event: Buffer): JsonObject {
  return parseEvent(event, 0).event ?? {}
}

const names = ['projectId', 'eventId', ...knownFields.map(({ name }) => name)]
const eventIdIndex = names.indexOf('eventId')
/** Start and end of the value of each known member of the event that is being parsed, the last of its name. */
const values = new Int32Array(2 * names.length)

function parseEvent(body: Buffer, start: number): ParsedEvent {
  if (body[start] !== openBrace) return { event: undefined, start, end: skipValue(body, start), idStart: 0, idEnd: 0 }
  values.fill(0)
  const depth: Depth = { levelsMost: 0 }
  const end = skipMembers(body, start, (keyStart, keyEnd, valueStart) => {
    const known = knownIndex(body, keyStart, keyEnd)
    const valueEnd = skipValue(body, valueStart, depth)
    if (known !== -1) {
      values[2 * known] = valueStart
      values[2 * known + 1] = valueEnd
    }
    return valueEnd
  })
  const idStart = values[2 * eventIdIndex] as number
  const idEnd = values[2 * eventIdIndex + 1] as number
  const parsed = { event: parseValues(body), start, end, idStart, idEnd }
  // the event itself is the first level
  const tooDeepAt = depth.levelsMost < eventDepthMax ? undefined : tooDeepPath(body, start)
  return tooDeepAt === undefined ? parsed : { ...parsed, tooDeepAt }
}

function parseValues(body: Buffer): JsonObject {
  const event: JsonObject = {}
  for (let i = 0; i < names.length; i++) {
    const end = values[2 * i + 1] as number
    if (end > 0) event[names[i] as string] = parseValue(body, values[2 * i] as number, end)
  }
  return event
}

function parseValue(body: Buffer, start: number, end: number): unknown {
  const first = body[start]
  if (first === openBrace) return {}
  if (first === openBracket) return []
  if (first === quote && !hasEscape(body, start, end)) return body.toString('utf8', start + 1, end - 1)
  return JSON.parse(body.toString('utf8', start, end))
}

/** The known members by length and first byte of their names; no two share both. */
const knownBySlot = new Map(names.map((name, i) => [toSlot(name.length, name.charCodeAt(0)), i]))
const nameBytesMax = Math.max(...names.map(({ length }) => length))

function toSlot(length: number, first: number): number {
  return (length << 8) | first
}

/** The index of the known member with this key, whose quotes are included; -1 for an unknown key. */
function knownIndex(body: Buffer, start: number, end: number): number {
  const length = end - start - 2
  const known = length > nameBytesMax ? undefined : knownBySlot.get(toSlot(length, body[start + 1] as number))
  if (known !== undefined && isAt(body, start + 1, names[known] as string)) return known
  if (length > nameBytesMax * unicodeEscapeBytes || !hasEscape(body, start, end)) return -1
  return names.findIndex((name) => isKey(body, start, end, name))
}

function hasEscape(body: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (body[at] === backslash) return true
  return false
}

/** A JSON Pointer to the first value of an event that is one level too deep. The event is valid JSON. */
function tooDeepPath(body: Buffer, start: number): string | undefined {
  /** The path of the value that is being read, without the event itself: an array index, or the range of a key. */
  const steps: (number | Slice)[] = []
  let found: string | undefined

  // recursive, but no deeper than events may nest
  function walk(at: number): number {
    const isObject = body[at] === openBrace
    if (found !== undefined || (!isObject && body[at] !== openBracket)) return skipValue(body, at)
    if (steps.length === eventDepthMax) {
      const tokens = steps.map((step) =>
        typeof step === 'number' ? step : JSON.parse(body.toString('utf8', step.start, step.end)),
      )
      found = pointerOf(tokens)
      return skipValue(body, at)
    }
    let index = 0
    if (!isObject) return skipElements(body, at, (elementStart) => walkStep(index++, elementStart))
    return skipMembers(body, at, (start, end, valueStart) => walkStep({ start, end }, valueStart))
  }

  function walkStep(step: number | Slice, at: number): number {
    steps.push(step)
    const end = walk(at)
    steps.pop()
    return end
  }

  walk(start)
  return found
}
