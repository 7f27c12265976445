import type { Api } from './api.ts'
import type { EventLine } from './event-lines.ts'

/** The event with this id, or its tombstone; null if it is not stored. */
export async function findEvent(api: Api, eventId: string, signal: AbortSignal): Promise<EventLine | null> {
  const [line = null] = await api.events({ query: { eventId }, signal })
  return line
}
