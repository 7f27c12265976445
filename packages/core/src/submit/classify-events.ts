import type { RejectedEvent } from '../events/batch.ts'
import { eventIdIssue, eventIssues, identityIssues, validName } from '../events/event.ts'
import type { CheckBySchema } from '../events/event-schemas.ts'
import type { ParsedEvent } from '../events/parse-batch.ts'
import type { Slice } from '../json/json-scanner.ts'
import { issuesMax, type JsonObject } from '../validation.ts'
import type { AppendEvent } from './batch-events.ts'

/** An event with issues, and its byte range. */
export interface Rejection extends Slice {
  rejection: RejectedEvent
  /** Its type, build and game server; null if missing or invalid. */
  type: string | null
  buildId: string | null
  serverId: string | null
}

/** An invalid event with a valid id: a duplicate if the id is stored, rejected otherwise. */
export interface InvalidEvent extends Rejection {
  eventId: string
}

/** The events of a batch, classified by their content alone, before the store is read. */
export interface ClassifiedEvents {
  /** Events without a valid id or of another project: rejected whatever is stored. */
  unidentified: Rejection[]
  /** Rejected, unless their id is stored already. */
  invalid: InvalidEvent[]
  /** To be stored, unless their id is stored already. No id occurs twice. */
  valid: AppendEvent[]
  /** Valid events with the id of an earlier valid one: duplicates. */
  repeated: AppendEvent[]
}

/** Classifies the events of a batch. `parseWhole` returns an event with all its members, for `checkBySchema`. */
export function classifyEvents(
  projectId: string,
  events: readonly ParsedEvent[],
  checkBySchema: CheckBySchema = () => [],
  parseWhole?: (slice: Slice) => JsonObject,
): ClassifiedEvents {
  const unidentified: Rejection[] = []
  const invalid: InvalidEvent[] = []
  const valid: AppendEvent[] = []
  for (let index = 0; index < events.length; index++) {
    const parsed = events[index] as ParsedEvent
    const unidentifiedBy = identityIssues(parsed.event, projectId)
    const { start, end, tooDeepAt } = parsed
    if (unidentifiedBy.length > 0) {
      const rejection = { index, eventId: validEventId(parsed.event), issues: [...unidentifiedBy] }
      unidentified.push({ start, end, rejection, ...namesOf(parsed.event) })
      continue
    }
    const event = parsed.event as IdentifiedEvent
    const issues = eventIssues(event, tooDeepAt)
    // a recursive schema would exhaust the stack on a deep event
    if (!issues.some(({ code }) => code === 'too_deep')) {
      issues.push(...checkBySchema(event, end - start, parseWhole && (() => parseWhole(parsed))))
    }
    if (issues.length === 0) valid.push(toAppendEvent(event, parsed))
    else {
      const { eventId } = event
      const rejection = { index, eventId, issues: issues.slice(0, issuesMax) }
      invalid.push({ eventId, start, end, rejection, ...namesOf(event) })
    }
  }
  return { unidentified, invalid, ...splitRepeats(valid) }
}

/** Splits valid events into the first one of each id and the repeats. */
function splitRepeats(events: readonly AppendEvent[]): Pick<ClassifiedEvents, 'valid' | 'repeated'> {
  const eventIds = new Set<string>()
  const valid: AppendEvent[] = []
  const repeated: AppendEvent[] = []
  for (const event of events) {
    const isRepeat = eventIds.size === eventIds.add(event.eventId).size
    if (isRepeat) repeated.push(event)
    else valid.push(event)
  }
  return { valid, repeated }
}

type IdentifiedEvent = JsonObject & { eventId: string }

function toAppendEvent(
  { eventId, buildId, type }: IdentifiedEvent,
  { start, end, idStart, idEnd }: ParsedEvent,
): AppendEvent {
  const event: AppendEvent = { eventId, start, end, idStart, idEnd }
  if (typeof buildId === 'string') event.buildId = buildId
  if (typeof type === 'string') event.type = type
  return event
}

function namesOf({ type, buildId, serverId }: JsonObject = {}): Pick<Rejection, 'type' | 'buildId' | 'serverId'> {
  return {
    type: validName('type', type),
    buildId: validName('buildId', buildId),
    serverId: validName('serverId', serverId),
  }
}

function validEventId(event: unknown): string | null {
  const eventId = (event as JsonObject | null)?.eventId
  return eventIdIssue(eventId) === undefined ? (eventId as string) : null
}
