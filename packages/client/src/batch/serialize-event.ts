import { isAnyArrayBuffer, isUint8Array } from 'node:util/types'
import { IngestError } from '@ingest/core'
import { eventIdIssue, type JsonObject, parseJson, stripByteOrderMark } from '@ingest/core/internal'

/** Prepends the `members` that `given`, the parsed `text`, lacks. The rest of the text is kept byte for byte. */
export function addMissingMembers(text: Buffer, given: JsonObject, members: JsonObject): Buffer {
  const missing = Object.entries(members).filter(([name]) => !Object.hasOwn(given, name))
  if (missing.length === 0) return text
  const added = JSON.stringify(Object.fromEntries(missing)).slice(0, -1)
  const isEmpty = Object.keys(given).length === 0
  return Buffer.concat([Buffer.from(isEmpty ? added : `${added},`), text.subarray(text.indexOf('{') + 1)])
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20

/** Copies JSON, with spaces in place of line breaks, which only occur between tokens. */
export function toSingleLine(text: Uint8Array): Buffer {
  const line = Buffer.from(text)
  for (let at = 0; at < line.length; at++) {
    if (line[at] === lineFeed || line[at] === carriageReturn) line[at] = space
  }
  return line
}

/** An event as it is sent: JSON in one line, with an id. */
export interface SerializedEvent {
  eventId: string
  bytes: Buffer
}

/** Depth limit of the search for an invalid member: the limit of the server. */
const searchDepthMax = 32

/** Members added to an event that lacks them; `timestamp` only if given. */
export interface EventDefaults {
  projectId: string
  makeEventId: () => string
  timestamp?: string | undefined
}

/**
 * Serializes an event and prepends its missing members. Objects are serialized by `JSON.stringify`. Bytes are kept,
 * even those of another realm, and so are numbers beyond 2^53; only line breaks between tokens become spaces.
 *
 * @throws {IngestError} `invalid-argument` for anything but an object, an object that cannot be serialized (`issues`
 *   name the member), and an invalid `eventId` (with `issues`); `malformed-body` for bytes that are not JSON in UTF-8.
 */
export function serializeEvent(event: object, { projectId, makeEventId, timestamp }: EventDefaults): SerializedEvent {
  const text = isUint8Array(event) ? toSingleLine(stripByteOrderMark(event)) : Buffer.from(stringify(event))
  // check the text, not the object: toJSON, getters and proxies may return a different value on a second read
  const given = parseJson(text)
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw notAnObject()
  const { eventId = makeEventId() } = given as JsonObject
  const issue = eventIdIssue(eventId)
  if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
  const members = { projectId, eventId, ...(timestamp !== undefined && { timestamp }) }
  return { eventId: eventId as string, bytes: addMissingMembers(text, given as JsonObject, members) }
}

function stringify(event: object): string {
  let text: string | undefined
  let kind: string | undefined
  if (typeof event !== 'object') throw notAnObject()
  // JSON.stringify would serialize a typed array as an object with numeric members
  if (ArrayBuffer.isView(event) || isAnyArrayBuffer(event)) throw notPlain(className(event))
  try {
    text = JSON.stringify(event)
    if (text === '{}') kind = className(event)
  } catch (cause) {
    throw notSerializable(event, cause)
  }
  if (text === undefined) throw notAnObject()
  if (kind === undefined) return text
  throw notPlain(kind)
}

/** The class of an object; undefined for a plain object. */
function className(event: object): string | undefined {
  const prototype = Object.getPrototypeOf(event)
  // the prototype of a plain object has no prototype, even in another realm
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return undefined
  return String(prototype.constructor?.name)
}

function notPlain(kind: string | undefined): IngestError {
  const message = `An event must be a plain object, or JSON in a Uint8Array: JSON has no form for the content of a ${kind}.`
  return new IngestError('invalid-argument', message)
}

function notAnObject(): IngestError {
  return new IngestError('invalid-argument', 'An event must be an object.')
}

function notSerializable(event: object, cause: unknown): IngestError {
  const path = invalidMemberPath(event, [])
  const [reason = ''] =
    cause instanceof Error ? String(cause.message).split('\n') : ['the thrown value is not an Error']
  const message = `The event cannot be serialized as JSON${path && `, because of ${path}`}: ${reason}`
  return new IngestError('invalid-argument', message, {
    cause,
    issues: [{ code: 'invalid_type', path, message: reason }],
  })
}

/** The JSON Pointer (RFC 6901) of the member that cannot be serialized; empty for the value itself. */
function invalidMemberPath(value: unknown, parents: readonly unknown[]): string {
  if (parents.length === searchDepthMax || parents.includes(value)) return ''
  for (const name of memberNames(value)) {
    let member: unknown
    try {
      member = (value as JsonObject)[name]
      JSON.stringify(member)
    } catch {
      return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}${invalidMemberPath(member, [...parents, value])}`
    }
  }
  return ''
}

function memberNames(value: unknown): string[] {
  try {
    return typeof value === 'object' && value !== null ? Object.keys(value) : []
  } catch {
    return []
  }
}
