import type { EventLine } from '../../api/event-lines.ts'
import { type Columns, createColumns } from '../../heat/columns.ts'
import type { ListedEvent } from '../live/event-list.tsx'
import { eventsOf, firstLimit, nextLimit, type ReadEvents } from '../live/follow.ts'
import { listedMembers, textOf } from '../live/held-events.ts'

/** Maximum number of events that are read from a range. */
export const eventsMax = 5_000
const charsMax = 8 * 2 ** 20
/** The range is read in this many slices, one after another. */
const slices = 20
/** Spools and wrong time zones stay below this; a clock of 1970 would stretch the time of the whole playback. */
const timestampFarMs = 86_400_000

/** An event in the order of play. */
export interface PlayEvent extends ListedEvent {
  sessionId: string
  /** Its `timestamp` if that is used, else its time of receipt; milliseconds since 1970. */
  at: number
  /** `missing`: or invalid. `far`: more than a day from the time of receipt. */
  timestamp: 'used' | 'missing' | 'far'
  /** Its index in the columns. */
  row: number
}

export interface PlayReader {
  /** Sends one request. Resolves with undefined at the end. */
  step(signal: AbortSignal): Promise<0 | undefined>
  /** Sorted by time. */
  events(): PlayEvent[]
  columns: Columns
  /** The part of the range that was read, from 0 to 1. */
  share(): number
  /** Whether the range has more events than were read. */
  isCut(): boolean
}

/** Reads the events received from `from` (inclusive) to `to` (exclusive), in slices. */
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
    // the sort is stable: events with the same time keep the order of the log
    events: () => events.toSorted((a, b) => a.at - b.at),
    columns,
    share: () => slice / slices,
    isCut: () => isCut,
  }
}

function membersOf(event: Record<string, unknown>, receivedAt: number) {
  const { sessionId, timestamp: sent } = event
  // NaN for times that a Date cannot represent
  const time = new Date(typeof sent === 'string' ? sent : Number(sent ?? Number.NaN)).getTime()
  const offMs = Math.abs(time - receivedAt)
  const timestamp: PlayEvent['timestamp'] = offMs <= timestampFarMs ? 'used' : Number.isNaN(offMs) ? 'missing' : 'far'
  return {
    ...listedMembers(event),
    sessionId: textOf(sessionId),
    at: timestamp === 'used' ? time : receivedAt,
    timestamp,
  }
}
