import type { EventLine } from '../../api/event-lines.ts'
import { type Beginning, eventsOf, firstLimit, nextLimit, type ReadEvents } from './follow.ts'
import { newestOf } from './held-events.ts'

/** A run ends once it has found this many events, or after this many requests. */
const enoughEvents = 100
const requestsMax = 30
const spanFirstMs = 200
const spanFactor = 6
/** Beyond this, the span covers all earlier events. */
const spanMaxMs = 30 * 86_400_000

export interface History {
  /** Sends one request. Resolves with undefined at the end of a run; the next step starts another run. */
  step(signal: AbortSignal): Promise<0 | undefined>
  /** Every event received since this time was searched; in milliseconds since 1970. */
  searchedFrom(): number
  /** Whether all events of the project were searched. */
  isComplete(): boolean
}

/**
 * Reads backwards from where a follower began, in growing spans: this takes a few index lookups, however long the log
 * is. `onEvents` receives the events of a span, oldest first; `isAfterGap`: earlier events of the span were skipped.
 */
export function createHistory(
  { from, firstAt }: Beginning,
  read: ReadEvents,
  onEvents: (events: EventLine[], isAfterGap: boolean) => void,
): History {
  let searchedFrom = from
  let spanMs = spanFirstMs
  let limit = firstLimit
  let found = 0
  let requests = 0
  let span = emptySpan()

  function take(lines: EventLine[], cursor: string): void {
    const events = eventsOf(lines)
    const kept = newestOf([...span.events, ...events])
    const isCut = span.isCut || kept.length < span.events.length + events.length
    span = { after: cursor, responses: span.responses + 1, events: kept, isCut }
    if (events.length > 0) limit = nextLimit(events)
  }

  function endSpan(start: number): void {
    const { events, isCut, responses } = span
    if (events.length > 0) onEvents(events, isCut)
    found += events.length
    const end = searchedFrom
    searchedFrom = isCut ? (events[0]?.receivedAt ?? start) : start
    if (isCut) spanMs = Math.max(1, end - searchedFrom)
    else if (responses <= 1) spanMs *= spanFactor
    span = emptySpan()
  }

  const isComplete = () => searchedFrom <= firstAt

  function endRun(): undefined {
    found = 0
    requests = 0
  }

  return {
    async step(signal) {
      if (isComplete()) return endRun()
      const start = spanMs > spanMaxMs ? firstAt : Math.max(firstAt, searchedFrom - spanMs)
      const lines = await read({ from: start, to: searchedFrom, after: span.after, limit }, signal)
      requests++
      const cursor = lines.at(-1)?.cursor
      // a response without progress means the end of the span
      if (cursor !== undefined && cursor !== span.after) take(lines, cursor)
      else endSpan(start)
      return found >= enoughEvents || requests >= requestsMax || isComplete() ? endRun() : 0
    },
    searchedFrom: () => searchedFrom,
    isComplete,
  }
}

const emptySpan = () => ({
  after: undefined as string | undefined,
  responses: 0,
  events: [] as EventLine[],
  isCut: false,
})
