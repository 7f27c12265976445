import type { EventLine } from '../../api/event-lines.ts'

export const eventsHeldMax = 1_000
const charsHeldMax = 4 * 2 ** 20
const namesMax = 500

/** An event with the members that the list shows; a member that the event lacks is empty. */
export interface HeldEvent extends EventLine {
  text: string
  eventId: string
  type: string
  buildId: string
  /** Whether events before it were left out. */
  isAfterGap: boolean
}

/** The last events that arrived, at most 1,000 and 4 Mi characters, and the types and builds of all that arrived. */
export interface HeldEvents {
  /** Oldest first. */
  readonly events: readonly HeldEvent[]
  readonly types: ReadonlySet<string>
  readonly buildIds: ReadonlySet<string>
  add(events: readonly HeldEvent[]): void
}

export function createHeldEvents(): HeldEvents {
  let events: HeldEvent[] = []
  let chars = 0
  const types = new Set<string>()
  const buildIds = new Set<string>()
  return {
    get events() {
      return events
    },
    types,
    buildIds,
    add(more) {
      for (const { text, type, buildId } of more) {
        chars += text.length
        if (types.size < namesMax) types.add(type)
        if (buildIds.size < namesMax) buildIds.add(buildId)
      }
      events = events.concat(more)
      let dropped = 0
      for (; events.length - dropped > eventsHeldMax || chars > charsHeldMax; dropped++) {
        chars -= events[dropped]?.text.length ?? 0
      }
      if (dropped > 0) events = events.slice(dropped)
    },
  }
}

/** Reads the fields that the list shows from a line with an event. */
export function toHeldEvent(line: EventLine, isAfterGap = false): HeldEvent {
  const { text = '{}' } = line
  const { eventId, type, buildId } = JSON.parse(text) as Record<string, unknown>
  return { ...line, text, eventId: nameOf(eventId), type: nameOf(type), buildId: nameOf(buildId), isAfterGap }
}

function nameOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Undefined selects all; an empty name those without one. */
export interface EventFilter {
  type?: string | undefined
  buildId?: string | undefined
  /** Anywhere in the text of the event, ignoring case. */
  text: string
}

/** The events that match, newest first. */
export function filterEvents(events: readonly HeldEvent[], { type, buildId, text }: EventFilter): HeldEvent[] {
  const pattern = text === '' ? undefined : new RegExp(escapePattern(text), 'iu')
  const matches = (event: HeldEvent) =>
    (type === undefined || event.type === type) &&
    (buildId === undefined || event.buildId === buildId) &&
    (pattern?.test(event.text) ?? true)
  return events.filter(matches).reverse()
}

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}
