import type { EventLine } from '../../api/event-lines.ts'
import { type FilterName, filterMembers, filterNames, filterValue } from '../../event-filter.ts'

export const eventsHeldMax = 1_000
const charsHeldMax = 4 * 2 ** 20
const valuesMax = 500

/** An event with the members that the list shows; missing members are empty. */
export interface HeldEvent extends EventLine {
  text: string
  eventId: string
  type: string
  buildId: string
  placeId: string
  playerId: string
  /** Whether events before it were skipped. */
  isAfterGap: boolean
}

/** The latest events, at most 1,000 and 4 Mi characters. */
export interface HeldEvents {
  /** Oldest first. */
  readonly events: readonly HeldEvent[]
  /** Number of events received since `hold`. */
  readonly newerCount: number
  /** Whether some of these were skipped. */
  readonly isNewerCut: boolean
  /** Whether earlier events were dropped, so that none can be added before. */
  readonly isFull: boolean
  add(events: readonly HeldEvent[]): void
  addEarlier(events: readonly HeldEvent[]): void
  /** Puts aside events received from now on. */
  hold(): void
  /** Adds the events put aside. */
  release(): void
}

export function createHeldEvents(): HeldEvents {
  let events: HeldEvent[] = []
  let newer: HeldEvent[] = []
  let newerCount = 0
  let isNewerCut = false
  let isHeld = false
  let isFull = false

  function release(): void {
    isHeld = false
    const [first, ...rest] = newer
    const isCut = newer.length < newerCount
    const all = first ? [...events, isCut ? { ...first, isAfterGap: true } : first, ...rest] : events
    events = newestOf(all)
    isFull ||= events.length < all.length
    newer = []
    newerCount = 0
    isNewerCut = false
  }

  return {
    get events() {
      return events
    },
    get newerCount() {
      return newerCount
    },
    get isNewerCut() {
      return isNewerCut
    },
    get isFull() {
      return isFull
    },
    add(more) {
      newer = newestOf([...newer, ...more])
      newerCount += more.length
      isNewerCut ||= more.some(({ isAfterGap }) => isAfterGap)
      if (!isHeld) release()
    },
    addEarlier(more) {
      const all = [...more, ...events]
      events = newestOf(all)
      isFull ||= events.length < all.length
    },
    hold() {
      isHeld = true
    },
    release,
  }
}

/** The newest of the events, oldest first, up to the limits. */
export function newestOf<Line extends EventLine>(events: Line[]): Line[] {
  let chars = 0
  let first = events.length
  while (first > 0 && events.length - first < eventsHeldMax) {
    chars += events[first - 1]?.text?.length ?? 0
    if (chars > charsHeldMax) break
    first--
  }
  return first === 0 ? events : events.slice(first)
}

/** Values seen in events, up to 500 for each member. */
export type SeenValues = Readonly<Record<FilterName, Set<string>>>

export function createSeenValues(): SeenValues {
  return Object.fromEntries(filterNames.map((name) => [name, new Set()])) as unknown as SeenValues
}

/** Reads the fields that the list shows from a line with an event, and adds its values to `seen`. */
export function toHeldEvent(line: EventLine, seen: SeenValues, isAfterGap = false): HeldEvent {
  const { text = '{}' } = line
  const event = JSON.parse(text) as Record<string, unknown>
  for (const name of filterNames) {
    const value = filterValue(event[filterMembers[name]])
    if (value !== undefined && seen[name].size < valuesMax) seen[name].add(value)
  }
  return { ...line, text, ...listedMembers(event), isAfterGap }
}

export function listedMembers({ eventId, type, buildId, placeId, playerId }: Record<string, unknown>) {
  return {
    eventId: textOf(eventId),
    type: textOf(type),
    buildId: textOf(buildId),
    placeId: textOf(placeId),
    playerId: textOf(playerId),
  }
}

export function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

/** The events whose text contains `text`, ignoring case, newest first. */
export function eventsWith(text: string, events: readonly HeldEvent[]): HeldEvent[] {
  const pattern = text === '' ? undefined : new RegExp(escapePattern(text), 'iu')
  return events.filter((event) => pattern?.test(event.text) ?? true).reverse()
}

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}
