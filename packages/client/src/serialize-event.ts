import { type Event, eventIdIssue, IngestError, parseJson, withoutMark } from '@ingest/core'

/** One event as it will be sent: JSON without line breaks, of which it is known that it has an id. */
export interface SerializedEvent {
  eventId: string
  bytes: Buffer
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20

/**
 * The bytes of an event, with the `projectId` and an `eventId` where it has none. What comes as bytes stays as it is,
 * numbers beyond 2^53 too; only a line break between its tokens becomes a space.
 *
 * @throws {IngestError} `invalid-argument` for what is no object, cannot be written as JSON, or has an `eventId` that
 *   cannot be one (with `issues`); `malformed-body` for bytes that are no JSON in UTF-8.
 */
export function serializeEvent(
  event: Event | Uint8Array,
  projectId: string,
  makeEventId: () => string,
): SerializedEvent {
  const given = event instanceof Uint8Array ? parseJson(withoutMark(event)) : event
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new IngestError('invalid-argument', 'An event is an object.')
  }
  const { projectId: project = projectId, eventId = makeEventId(), ...rest } = given as Event
  const issue = eventIdIssue(eventId)
  if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
  const bytes =
    event instanceof Uint8Array
      ? withMembers(event, given as Event, { projectId, eventId })
      : Buffer.from(textOf({ projectId: project, eventId, ...rest }))
  return { eventId: eventId as string, bytes }
}

function textOf(event: Event): string {
  try {
    return JSON.stringify(event)
  } catch (cause) {
    const { message } = cause as Error
    throw new IngestError('invalid-argument', `The event cannot be written as JSON: ${message}`, { cause })
  }
}

/** The text of `given`, in one line, with those of the members that it lacks in front of its own. */
function withMembers(text: Uint8Array, given: Event, members: Event): Buffer {
  const line = Buffer.from(withoutMark(text))
  for (let at = 0; at < line.length; at++) {
    if (line[at] === lineFeed || line[at] === carriageReturn) line[at] = space
  }
  const lacking = Object.entries(members).filter(([name]) => !Object.hasOwn(given, name))
  if (lacking.length === 0) return line
  const added = JSON.stringify(Object.fromEntries(lacking)).slice(0, -1)
  const isEmpty = Object.keys(given).length === 0
  return Buffer.concat([Buffer.from(isEmpty ? added : `${added},`), line.subarray(line.indexOf('{') + 1)])
}
