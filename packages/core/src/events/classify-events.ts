import type { Slice } from '../json/json-scanner.ts'
import { type Issue, issuesMax } from '../validation.ts'
import type { RejectedEvent } from './batch.ts'
import { eventIdIssue, eventIssues, identityIssues, isObject, type JsonObject } from './event.ts'
import type { CheckBySchema } from './event-schemas.ts'
import type { AppendEvent } from './event-store.ts'
import { type ParsedEvent, parseBatch } from './parse-batch.ts'

/** An event that has an identity and a fault: it is a duplicate instead if its id is known. */
export interface FaultyEvent extends Slice {
  eventId: string
  rejection: RejectedEvent
}

/** What can be said of the events of a batch before anyone looks at what is stored. */
export interface SortedEvents {
  /** Nobody's events: rejected whatever is stored. */
  unidentified: RejectedEvent[]
  /** Rejected, unless they are known. */
  faulty: FaultyEvent[]
  /** To be stored, unless they are known; no id twice. */
  valid: AppendEvent[]
  /** Valid events with the id of an earlier valid one. */
  repeats: AppendEvent[]
}

/**
 * Sorts the events of a batch by what their own content says of them. `wholeOf` gives an event with all its members,
 * for `checkBySchema`.
 */
export function sortEvents(
  projectId: string,
  events: readonly ParsedEvent[],
  checkBySchema: CheckBySchema = () => [],
  wholeOf?: (slice: Slice) => JsonObject,
): SortedEvents {
  const unidentified: RejectedEvent[] = []
  const faulty: FaultyEvent[] = []
  const faultless: AppendEvent[] = []
  for (let index = 0; index < events.length; index++) {
    const parsed = events[index] as ParsedEvent
    const nobodys = identityIssues(parsed.event, projectId)
    if (nobodys.length > 0) {
      unidentified.push({ index, eventId: usableEventId(parsed.event), issues: [...nobodys] })
      continue
    }
    const event = parsed.event as JsonObject & { eventId: string }
    const { start, end, tooDeepAt } = parsed
    const issues = eventIssues(event, tooDeepAt)
    // a schema that refers to itself would follow a deep event until the stack ends
    if (!issues.some(({ code }) => code === 'too_deep')) {
      issues.push(...checkBySchema(event, wholeOf && (() => wholeOf(parsed))))
    }
    if (issues.length === 0) faultless.push(appendEvent(event, start, end))
    else {
      const { eventId } = event
      faulty.push({ eventId, start, end, rejection: { index, eventId, issues: issues.slice(0, issuesMax) } })
    }
  }
  return { unidentified, faulty, ...takeOutRepeats(faultless) }
}

/** Of several events with one id the first is to be stored. */
export function takeOutRepeats(events: readonly AppendEvent[]): Pick<SortedEvents, 'valid' | 'repeats'> {
  const eventIds = new Set<string>()
  const valid: AppendEvent[] = []
  const repeats: AppendEvent[] = []
  for (const event of events) {
    const to = eventIds.size === eventIds.add(event.eventId).size ? repeats : valid
    to.push(event)
  }
  return { valid, repeats }
}

function appendEvent(event: JsonObject & { eventId: string }, start: number, end: number): AppendEvent {
  const { eventId, buildId } = event
  return typeof buildId === 'string' ? { eventId, buildId, start, end } : { eventId, start, end }
}

function usableEventId(event: unknown): string | null {
  const eventId = (event as JsonObject | null)?.eventId
  return eventIdIssue(eventId) === undefined ? (eventId as string) : null
}

/** What can be said of an event before anyone looks at what is stored. */
export interface CheckedEvent {
  /** Null where it is unusable. */
  eventId: string | null
  /** Whether it can be looked up: if it is known it is a duplicate, whatever else it holds. */
  isIdentified: boolean
  /** Why it would be rejected; none for an event that would be stored, unless it is known. */
  issues: Issue[]
}

/** The issues that a server without schemas of its own finds in a new event: its JSON as bytes, or its value. */
export function checkEvent(projectId: string, event: unknown): CheckedEvent {
  const { unidentified, faulty, valid } = sortEvents(projectId, [parsedOf(event)])
  const [nobodys] = unidentified
  if (nobodys) return { eventId: nobodys.eventId, isIdentified: false, issues: nobodys.issues }
  const eventId = (faulty[0] ?? valid[0])?.eventId ?? null
  return { eventId, isIdentified: true, issues: faulty[0]?.rejection.issues ?? [] }
}

function parsedOf(event: unknown): ParsedEvent {
  if (!(event instanceof Uint8Array)) return { event: isObject(event) ? event : undefined, start: 0, end: 0 }
  const [parsed] = parseBatch(Buffer.concat([Buffer.from('{"events":['), event, Buffer.from(']}')]))
  return parsed as ParsedEvent
}
