import type { RejectedEvent } from './batch.ts'
import { type Event, eventIdIssue, eventIssues, identityIssues } from './event.ts'
import type { CheckBySchema } from './event-schemas.ts'
import { issuesMax } from './issue.ts'
import type { AppendEvent } from './store.ts'

/** A rejected entry of an event that has an identity: it is a duplicate instead if its id is known. */
export interface FaultyEvent extends RejectedEvent {
  eventId: string
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
  repeats: { index: number; eventId: string }[]
}

/** Sorts the events of a batch by what their own content says of them. */
export function sortEvents(projectId: string, events: readonly unknown[], checkBySchema: CheckBySchema): SortedEvents {
  const sorted: SortedEvents = { unidentified: [], faulty: [], valid: [], repeats: [] }
  const eventIds = new Set<string>()
  for (let index = 0; index < events.length; index++) {
    const nobodys = identityIssues(events[index], projectId)
    if (nobodys.length > 0) {
      sorted.unidentified.push({ index, eventId: usableEventId(events[index]), issues: [...nobodys] })
      continue
    }
    const event = events[index] as Event & { eventId: string }
    const issues = eventIssues(event)
    // a schema that refers to itself would follow a deep event until the stack ends
    if (!issues.some(({ code }) => code === 'too_deep')) issues.push(...checkBySchema(event))
    if (issues.length > 0) {
      sorted.faulty.push({ index, eventId: event.eventId, issues: issues.slice(0, issuesMax) })
      continue
    }
    if (eventIds.has(event.eventId)) {
      sorted.repeats.push({ index, eventId: event.eventId })
      continue
    }
    eventIds.add(event.eventId)
    sorted.valid.push(appendEvent(index, event))
  }
  return sorted
}

function appendEvent(index: number, { eventId, buildId }: Event & { eventId: string }): AppendEvent {
  return typeof buildId === 'string' ? { index, eventId, buildId } : { index, eventId }
}

function usableEventId(event: unknown): string | null {
  const eventId = (event as Event | null)?.eventId
  return eventIdIssue(eventId) === undefined ? (eventId as string) : null
}
