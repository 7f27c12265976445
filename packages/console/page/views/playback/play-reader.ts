import type { EventLine } from '../../api/event-lines.ts'
import { type Columns, createColumns } from '../../heat/columns.ts'
import type { ListedEvent } from '../live/event-list.tsx'
import { eventsOf, firstLimit, nextLimit, type ReadEvents } from '../live/follow.ts'

/** The first events of a range are read, up to these bounds. */
export const eventsMax = 5_000
const charsMax = 8 * 2 ** 20
/** Spans of the range, read one after the other. */
const slices = 20

/** An event in the order of play. */
export interface PlayEvent extends ListedEvent {
  placeId: string
  sessionId: string
  /** Its `timestamp`, without a valid one when it was received: in milliseconds since 1970. */
  at: number
  hasTimestamp: boolean
  /** Its number in the columns. */
  row: number
}

export interface PlayReader {
  /** One request. Resolves with undefined at the end. */
  step(signal: AbortSignal): Promise<0 | undefined>
  /** By their times. */
  events(): PlayEvent[]
  columns: Columns
  /** From 0 to 1: the part of the range that was read. */
  share(): number
  /** Whether there are more events than are read. */
  isCut(): boolean
}

/** Reads the events received from `from` until before `to`, in slices. */
export function createPlayReader({ from, to }: { from: number; to: number }, read: ReadEvents): PlayReader {
  const events: PlayEvent[] = []
  const columns = createColumns()
  let slice = 0
  let after: string | undefined
  let limit = firstLimit
  let chars = 0
  let isCut = false

  const startOf = (slice: number) => Math.floor(from + ((to - from) * slice) / slices)

  function add(line: EventLine): void {
    const text = line.text ?? '{}'
    isCut ||= events.length >= eventsMax || chars + text.length > charsMax
    if (isCut) return
    const event = JSON.parse(text) as Record<string, unknown>
    chars += text.length
    events.push({ ...line, text, ...membersOf(event, line.receivedAt), row: columns.rows })
    columns.add(event)
  }

  return {
    async step(signal) {
      if (isCut || slice >= slices) return undefined
      const lines = await read({ from: startOf(slice), to: startOf(slice + 1), after, limit }, signal)
      const found = eventsOf(lines)
      if (found.length > 0) limit = nextLimit(found)
      for (const line of found) add(line)
      const cursor = lines.at(-1)?.cursor
      if (cursor === undefined || cursor === after) {
        slice++
        after = undefined
      } else after = cursor
      return isCut || slice >= slices ? undefined : 0
    },
    // stable: events of one time stay in the order of the log
    events: () => events.toSorted((a, b) => a.at - b.at),
    columns,
    share: () => slice / slices,
    isCut: () => isCut,
  }
}

function membersOf(event: Record<string, unknown>, receivedAt: number) {
  const { eventId, type, buildId, placeId, sessionId, timestamp } = event
  // NaN beyond the times of a Date
  const time = new Date(typeof timestamp === 'string' ? timestamp : Number(timestamp ?? Number.NaN)).getTime()
  return {
    eventId: textOf(eventId),
    type: textOf(type),
    buildId: textOf(buildId),
    placeId: textOf(placeId),
    sessionId: textOf(sessionId),
    at: Number.isFinite(time) ? time : receivedAt,
    hasTimestamp: Number.isFinite(time),
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}
