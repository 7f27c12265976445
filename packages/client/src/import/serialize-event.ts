import { IngestError } from '@ingest/core'
import { eventIdIssue, type JsonObject, parseJson, stripByteOrderMark } from '@ingest/core/internal'

/**
 * The text of an event, of which `given` is the value, with those of the members that it lacks in front of its own. All
 * else stays as it is, byte for byte.
 */
export function addMembers(text: Buffer, given: JsonObject, members: JsonObject): Buffer {
  const lacking = Object.entries(members).filter(([name]) => !Object.hasOwn(given, name))
  if (lacking.length === 0) return text
  const added = JSON.stringify(Object.fromEntries(lacking)).slice(0, -1)
  const isEmpty = Object.keys(given).length === 0
  return Buffer.concat([Buffer.from(isEmpty ? added : `${added},`), text.subarray(text.indexOf('{') + 1)])
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20

/** A copy of a text of JSON in which each line break is a space: it can only stand between tokens. */
export function oneLine(text: Uint8Array): Buffer {
  const line = Buffer.from(text)
  for (let at = 0; at < line.length; at++) {
    if (line[at] === lineFeed || line[at] === carriageReturn) line[at] = space
  }
  return line
}

/** One event as it will be sent: JSON without line breaks, with an id. */
export interface SerializedEvent {
  eventId: string
  bytes: Buffer
}

/** How deep the member that cannot be written is looked for: as deep as the service accepts. */
const searchDepthMax = 32

/**
 * The bytes of an event, with the `projectId` and an `eventId` in front where it has none. An object is written exactly
 * as `JSON.stringify` does. Bytes stay as they are, numbers beyond 2^53 too; only a line break between tokens becomes a
 * space.
 *
 * @throws {IngestError} `invalid-argument` for what is no object, cannot be written as JSON (`issues` name the member),
 *   or has an `eventId` that cannot be one (with `issues`); `malformed-body` for bytes that are no JSON in UTF-8.
 */
export function serializeEvent(
  event: JsonObject | Uint8Array,
  projectId: string,
  makeEventId: () => string,
): SerializedEvent {
  const text = event instanceof Uint8Array ? oneLine(stripByteOrderMark(event)) : Buffer.from(textOf(event))
  // what was written is looked at, not the object: toJSON, getters and proxies may say something else the next time
  const given = parseJson(text)
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw notAnObject()
  const { eventId = makeEventId() } = given as JsonObject
  const issue = eventIdIssue(eventId)
  if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
  return { eventId: eventId as string, bytes: addMembers(text, given as JsonObject, { projectId, eventId }) }
}

function textOf(event: JsonObject): string {
  let text: string | undefined
  let kind: string | undefined
  if (typeof event !== 'object') throw notAnObject()
  try {
    text = JSON.stringify(event)
    if (text === '{}') kind = kindOf(event)
  } catch (cause) {
    throw unwritable(event, cause)
  }
  if (text === undefined) throw notAnObject()
  if (kind === undefined) return text
  throw new IngestError('invalid-argument', `An event is a plain object: nothing of a ${kind} is written as JSON.`)
}

/** The name of the class of an object that is not a plain one. */
function kindOf(event: JsonObject): string | undefined {
  const prototype = Object.getPrototypeOf(event)
  // that of an object from another realm has no prototype either
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return undefined
  return String(prototype.constructor?.name)
}

function notAnObject(): IngestError {
  return new IngestError('invalid-argument', 'An event is an object.')
}

function unwritable(event: JsonObject, cause: unknown): IngestError {
  const path = faultPath(event, [])
  const [reason = ''] = cause instanceof Error ? String(cause.message).split('\n') : ['it threw what is no Error']
  const message = `The event cannot be written as JSON${path && `, because of ${path}`}: ${reason}`
  return new IngestError('invalid-argument', message, {
    cause,
    issues: [{ code: 'invalid_type', path, message: reason }],
  })
}

/** Which member cannot be written, as a JSON Pointer (RFC 6901); empty for the value itself. */
function faultPath(value: unknown, parents: readonly unknown[]): string {
  if (parents.length === searchDepthMax || parents.includes(value)) return ''
  for (const name of namesOf(value)) {
    let member: unknown
    try {
      member = (value as JsonObject)[name]
      JSON.stringify(member)
    } catch {
      return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}${faultPath(member, [...parents, value])}`
    }
  }
  return ''
}

function namesOf(value: unknown): string[] {
  try {
    return typeof value === 'object' && value !== null ? Object.keys(value) : []
  } catch {
    return []
  }
}
