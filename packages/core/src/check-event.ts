import { isObject } from './event.ts'
import type { Issue } from './issue.ts'
import { type ParsedEvent, parseBatch } from './parse-batch.ts'
import { sortEvents } from './sort-events.ts'

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
