import { type Event, eventIdIssue, IngestError, parseJson, withoutMark } from '@ingest/core'
import { addMembers } from './add-members.ts'
import { oneLine } from './one-line.ts'

/** One event as it will be sent: JSON without line breaks, of which it is known that it has an id. */
export interface SerializedEvent {
  eventId: string
  bytes: Buffer
}

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
      ? addMembers(oneLine(withoutMark(event)), given as Event, { projectId, eventId })
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
