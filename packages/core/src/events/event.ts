import type { TSchema } from 'typebox'
import type { Issue } from '../error.ts'
import {
  integerIssue,
  isObject,
  isTimestamp,
  type JsonObject,
  nameIssue,
  projectIdPattern,
  textIssue,
} from '../validation.ts'
import { eventIdBytesMax, type KnownField, knownFields } from './known-fields.ts'

/** An event as it is sent. Ingest checks these members, and stores any others unchecked. */
export interface IngestEvent {
  /** The project that the batch is submitted to. */
  projectId: string
  /** 1 to 256 bytes of UTF-8, unique within the project: an event with a stored id is a duplicate. */
  eventId: string
  /** 1 to 200 bytes of UTF-8. */
  type?: string | null
  /** An RFC 3339 time with a zone, or integer milliseconds since 1970. */
  timestamp?: string | number | null
  /** 1 to 128 bytes of UTF-8. Storing the event freezes the maps of this build. */
  buildId?: string | null
  /** 1 to 128 bytes of UTF-8, or a safe integer. */
  placeId?: string | number | null
  /** At most 256 bytes of UTF-8, or a safe integer; so are `serverId` and `playerId`. */
  sessionId?: string | number | null
  serverId?: string | number | null
  playerId?: string | number | null
  [member: string]: unknown
}

/** Maximum nesting depth of an event; the event itself is the first level. */
export const eventDepthMax = 32

export function eventIdIssue(value: unknown): Issue | undefined {
  if (value === undefined) return { code: 'required', path: '/eventId', message: 'Every event needs an eventId.' }
  return nameIssue(value, '/eventId', eventIdBytesMax)
}

const noIssues: readonly Issue[] = []

/** Why an event cannot be looked up: no valid id, or another project. Empty for an identified event. */
export function identityIssues(event: unknown, projectId: string): readonly Issue[] {
  if (!isObject(event)) return [{ code: 'not_object', path: '', message: 'Expected an object.' }]
  const idIssue = eventIdIssue(event.eventId)
  if (event.projectId === projectId) return idIssue ? [idIssue] : noIssues
  const mismatch = projectIssue(event.projectId)
  return idIssue ? [idIssue, mismatch] : [mismatch]
}

function projectIssue(value: unknown): Issue {
  const path = '/projectId'
  if (value === undefined) return { code: 'required', path, message: 'Every event needs a projectId.' }
  if (typeof value !== 'string') return { code: 'invalid_type', path, message: 'Expected a string.' }
  return { code: 'project_mismatch', path, message: 'Expected the project that the request is made for.' }
}

/** The rule as JSON Schema, which counts characters although the rule counts bytes. */
function toJsonSchema(field: KnownField): TSchema {
  const { text, bytesMin, bytesMax, integerMin } = field
  const length = { ...(bytesMin > 0 && { minLength: bytesMin }), maxLength: bytesMax }
  const types: TSchema[] = [{ type: 'string', ...(text === 'timestamp' ? { format: 'date-time' } : length) }]
  if (integerMin !== undefined) {
    types.push({ type: 'integer', ...(integerMin >= 0 && { minimum: integerMin }) })
  }
  return { anyOf: [...types, { type: 'null' }], description: ruleOf(field) }
}

/** The rule in words. */
function ruleOf({ text, bytesMin, bytesMax, integerMin }: KnownField): string {
  if (text === 'timestamp') {
    return 'RFC 3339 with a zone, such as `2026-11-20T17:51:00.250Z`, or integer milliseconds since 1970'
  }
  const length = bytesMin === 0 ? `at most ${bytesMax} bytes` : `${bytesMin} to ${bytesMax} bytes`
  const characters = text === 'name' ? ', same characters as `eventId`' : ''
  const integer = integerMin === undefined ? '' : ', or an integer up to ±9,007,199,254,740,991'
  return `string of ${length}${characters}${integer}`
}

/** An event as JSON Schema, for documentation and code generators. The server checks the exact rules, in bytes. */
export const EventSchema: TSchema = {
  type: 'object',
  required: ['projectId', 'eventId'],
  properties: {
    projectId: { type: 'string', pattern: projectIdPattern.source, description: 'that of the request' },
    eventId: {
      type: 'string',
      minLength: 1,
      maxLength: eventIdBytesMax,
      description: `string of 1 to ${eventIdBytesMax} bytes of UTF-8 without control characters and lone surrogates`,
    },
    ...Object.fromEntries(knownFields.map((field) => [field.name, toJsonSchema(field)])),
  },
}

/** The issues of an identified event: of its well-known members, and of the first value that nests too deeply. */
export function eventIssues(event: JsonObject, tooDeepAt: string | undefined): Issue[] {
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

const fieldsByName = Object.fromEntries(knownFields.map((field) => [field.name, field]))

/** A member for statistics; null if it is missing or invalid, as it may then contain any text and must not be shown. */
export function validName(name: 'type' | 'buildId' | 'serverId', value: unknown): string | null {
  const field = fieldsByName[name] as KnownField
  if (value === undefined || value === null || fieldIssue(field, value) !== undefined) return null
  return String(value)
}

function fieldIssue({ name, text, bytesMin, bytesMax, integerMin }: KnownField, value: unknown): Issue | undefined {
  // the names of known fields need no escaping
  const path = `/${name}`
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
  return isTimestamp(value) ? undefined : { code: 'invalid_format', path, message }
}
