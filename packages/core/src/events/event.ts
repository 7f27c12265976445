import { type TSchema, Type } from 'typebox'
import { IngestError } from '../error.ts'
import { exceedsBytes, type Issue, isNameText, pointer } from '../validation.ts'

/** A JSON object of which nothing is known. */
export type JsonObject = Record<string, unknown>

/** An event as it is sent. Ingest knows these members and stores all. */
export interface IngestEvent {
  projectId: string
  /** Unique within the project: events with an id that is stored are duplicates. 1 to 256 bytes of UTF-8. */
  eventId: string
  type?: string | null
  /** RFC 3339 with a zone, or milliseconds since 1970. */
  timestamp?: string | number | null
  /** The build that the event references; its maps freeze when the event is stored. */
  buildId?: string | null
  placeId?: string | number | null
  sessionId?: string | number | null
  serverId?: string | number | null
  playerId?: string | number | null
  [member: string]: unknown
}

/** The longest `eventId`, in bytes of UTF-8. */
export const eventIdBytesMax = 256
/** The deepest nesting of one event; the event itself is the first level. */
export const eventDepthMax = 32

const projectIdPattern = /^[A-Za-z0-9._-]{1,64}$/

/** Whether `value` can name a project: 1 to 64 of `A-Z a-z 0-9 . _ -`. */
export function isProjectId(value: unknown): value is string {
  return typeof value === 'string' && projectIdPattern.test(value)
}

/** @throws {IngestError} `invalid-argument` for what cannot name a project. */
export function checkProjectId(projectId: string): void {
  if (!isProjectId(projectId)) {
    throw new IngestError('invalid-argument', 'A project id is 1 to 64 of A-Z a-z 0-9 . _ -')
  }
}

/** Whether `value` is an object as JSON has them, so not an array and not null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What is wrong with `value` as an `eventId`; undefined when it is one. */
export function eventIdIssue(value: unknown): Issue | undefined {
  if (value === undefined) return { code: 'required', path: '/eventId', message: 'Every event needs an eventId.' }
  return nameIssue(value, '/eventId', eventIdBytesMax)
}

const noIssues: readonly Issue[] = []

/**
 * What makes `event` nobody's event, or not this project's: without an answer to this, it cannot be looked up.
 * An empty list for an event that can be identified.
 */
export function identityIssues(event: unknown, projectId: string): readonly Issue[] {
  if (!isObject(event)) return [{ code: 'not_object', path: '', message: 'Expected an object.' }]
  const unusable = eventIdIssue(event.eventId)
  if (event.projectId === projectId) return unusable ? [unusable] : noIssues
  const foreign = projectIssue(event.projectId)
  return unusable ? [unusable, foreign] : [foreign]
}

function projectIssue(value: unknown): Issue {
  const path = '/projectId'
  if (value === undefined) return { code: 'required', path, message: 'Every event needs a projectId.' }
  if (typeof value !== 'string') return { code: 'invalid_type', path, message: 'Expected a string.' }
  return { code: 'project_mismatch', path, message: 'Expected the project that the request is made for.' }
}

/** A member that Ingest knows. It may be missing or null; otherwise it must keep its rule. */
export interface KnownField {
  name: string
  /** `name`: no control characters and no lone surrogates either. */
  text: 'any' | 'name' | 'timestamp'
  bytesMin: number
  bytesMax: number
  /** The least integer that may stand in place of a text; without it, none may. */
  integerMin?: number
}

const anyInteger = Number.MIN_SAFE_INTEGER

export const knownFields: readonly KnownField[] = [
  { name: 'type', text: 'any', bytesMin: 1, bytesMax: 200 },
  { name: 'timestamp', text: 'timestamp', bytesMin: 0, bytesMax: Number.POSITIVE_INFINITY, integerMin: 0 },
  { name: 'buildId', text: 'name', bytesMin: 1, bytesMax: 128 },
  { name: 'placeId', text: 'any', bytesMin: 1, bytesMax: 128, integerMin: anyInteger },
  { name: 'sessionId', text: 'any', bytesMin: 0, bytesMax: 256, integerMin: anyInteger },
  { name: 'serverId', text: 'any', bytesMin: 0, bytesMax: 256, integerMin: anyInteger },
  { name: 'playerId', text: 'any', bytesMin: 0, bytesMax: 256, integerMin: anyInteger },
]

/** The rule as JSON Schema, as far as that can say it: it counts characters where the rule counts bytes. */
function schemaOf({ text, bytesMin, bytesMax, integerMin }: KnownField): TSchema {
  const length = { ...(bytesMin > 0 && { minLength: bytesMin }), maxLength: bytesMax }
  const string = Type.String(text === 'timestamp' ? { format: 'date-time' } : length)
  if (integerMin === undefined) return string
  return Type.Union([string, Type.Integer(integerMin === anyInteger ? {} : { minimum: integerMin })])
}

/** An event as JSON Schema, for documentation and for code generators; `eventIssues` is what decides. */
export const EventSchema = Type.Object({
  projectId: Type.String({ pattern: projectIdPattern.source }),
  eventId: Type.String({ minLength: 1, maxLength: eventIdBytesMax }),
  ...Object.fromEntries(
    knownFields.map((field) => [field.name, Type.Optional(Type.Union([schemaOf(field), Type.Null()]))]),
  ),
})

/**
 * What is wrong with the well-known members and the shape of an event that has an identity. `tooDeepAt` is where its
 * bytes nest too deep, which may be in a member that another of the same name has replaced.
 */
export function eventIssues(event: JsonObject, tooDeepAt = tooDeepPath(event, eventDepthMax)): Issue[] {
  const issues: Issue[] = []
  for (const field of knownFields) {
    const value = event[field.name]
    if (value === undefined || value === null) continue
    const found = fieldIssue(field, value)
    if (found) issues.push(found)
  }
  if (tooDeepAt !== undefined) {
    issues.push({ code: 'too_deep', path: tooDeepAt, message: `Expected at most ${eventDepthMax} levels of nesting.` })
  }
  return issues
}

function fieldIssue({ name, text, bytesMin, bytesMax, integerMin }: KnownField, value: unknown): Issue | undefined {
  const path = pointer('', name)
  if (typeof value === 'number' && integerMin !== undefined) return integerIssue(value, path, integerMin)
  if (text === 'timestamp') return timestampIssue(value, path)
  if (typeof value !== 'string' && integerMin !== undefined) {
    return { code: 'invalid_type', path, message: 'Expected a string or an integer.' }
  }
  return text === 'name' ? nameIssue(value, path, bytesMax) : textIssue(value, path, bytesMin, bytesMax)
}

function timestampIssue(value: unknown, path: string): Issue | undefined {
  const message = 'Expected an RFC 3339 time with a zone, or integer milliseconds since 1970.'
  if (typeof value !== 'string') return { code: 'invalid_type', path, message }
  return isTimestampText(value) ? undefined : { code: 'invalid_format', path, message }
}

function textIssue(value: unknown, path: string, bytesMin: number, bytesMax: number): Issue | undefined {
  if (typeof value !== 'string') return { code: 'invalid_type', path, message: 'Expected a string.' }
  if (value.length < bytesMin) return { code: 'too_short', path, message: `Expected at least ${bytesMin} byte.` }
  if (exceedsBytes(value, bytesMax)) {
    return { code: 'too_long', path, message: `Expected at most ${bytesMax} bytes of UTF-8.` }
  }
  return undefined
}

export function nameIssue(value: unknown, path: string, bytesMax: number): Issue | undefined {
  const issue = textIssue(value, path, 1, bytesMax)
  if (issue || isNameText(value as string)) return issue
  return { code: 'invalid_format', path, message: 'Expected no control characters and no lone surrogates.' }
}

export function textOrIntegerIssue(
  value: unknown,
  path: string,
  bytesMin: number,
  bytesMax: number,
): Issue | undefined {
  if (typeof value === 'string') return textIssue(value, path, bytesMin, bytesMax)
  if (typeof value !== 'number') return { code: 'invalid_type', path, message: 'Expected a string or an integer.' }
  return integerIssue(value, path, Number.MIN_SAFE_INTEGER)
}

function integerIssue(value: number, path: string, minimum: number): Issue | undefined {
  if (!Number.isInteger(value)) return { code: 'invalid_type', path, message: 'Expected an integer.' }
  if (value < minimum || value > Number.MAX_SAFE_INTEGER) {
    return { code: 'out_of_range', path, message: `Expected an integer from ${minimum} to ${Number.MAX_SAFE_INTEGER}.` }
  }
  return undefined
}

// RFC 3339 section 5.6, with the ranges of section 5.7; a leap second is allowed at any minute, as it is rarely known
const rfc3339 =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i

/** Whether `text` is an RFC 3339 time with a zone. */
export function isTimestampText(text: string): boolean {
  return rfc3339.test(text) && hasItsDay(text)
}

/** Whether the month of an RFC 3339 time has its day, which is one from 1 to 31. */
function hasItsDay(time: string): boolean {
  const day = time.slice(8, 10)
  if (day <= '28') return true
  const [year, month] = [Number(time.slice(0, 4)), Number(time.slice(5, 7))]
  if (month === 2) return day === '29' && ((year % 4 === 0 && year % 100 !== 0) || year % 400 === 0)
  return day !== '31' || !(month === 4 || month === 6 || month === 9 || month === 11)
}

/** Where `value` first nests deeper than `levels`, itself counted; undefined when it does not. */
function tooDeepPath(value: object, levels: number): string | undefined {
  if (levels === 0) return ''
  // `for in` is the fastest way over an object, and over a long array one of the slowest
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const found = tooDeepBelow(value[i], i, levels)
      if (found !== undefined) return found
    }
    return undefined
  }
  for (const step in value) {
    const found = tooDeepBelow((value as JsonObject)[step], step, levels)
    if (found !== undefined) return found
  }
  return undefined
}

function tooDeepBelow(child: unknown, step: string | number, levels: number): string | undefined {
  if (typeof child !== 'object' || child === null) return undefined
  const found = tooDeepPath(child, levels - 1)
  return found === undefined ? undefined : `${pointer('', step)}${found}`
}

/**
 * A time as people write it, in milliseconds since 1970: an RFC 3339 time with a zone, such as
 * `2026-11-20T17:51:00.250Z`, or that number itself. Undefined for anything else, and for a leap second.
 */
export function parseTime(text: string): number | undefined {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  const time = isTimestampText(text) ? Date.parse(text.toUpperCase()) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}
