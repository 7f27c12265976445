import type { Query } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import type { EventLine } from '../../api/event-lines.ts'
import { RequestError } from '../../api/request-error.ts'

/** Seconds that the server may hold back a response. */
export const waitSeconds = 25
/** After this many full responses in a row, the page counts as lagging. */
const fullInRowMax = 2
const requestIntervalMs = 500
/** Limits of one response: the first one; later ones depend on the size of events. */
export const firstLimit = 100
const limitMax = 500
const limitMin = 20
/** Bursts of up to this many events are shown completely. */
export const burstMax = (fullInRowMax - 1) * limitMax
const responseCharsAim = 4 * 2 ** 20
/** It starts to read this long before its first event, in milliseconds: under load, that fills the list. */
const beginningMs = 50
/** Rates and sampling cover this much of the recent past, in milliseconds. */
const windowMs = 10_000

/** One response of `GET /v1/events`. */
export type ReadEvents = (query: Query, signal: AbortSignal) => Promise<EventLine[]>

interface FollowOptions {
  read: ReadEvents
  stats(signal: AbortSignal): Promise<Pick<Stats, 'events' | 'firstAt' | 'lastAt'>>
  /**
   * Receives events, oldest first. `isAfterGap`: events before them were skipped. If it rejects, the events are read
   * again.
   */
  onEvents(events: EventLine[], isAfterGap: boolean, signal: AbortSignal): Promise<void>
  /** Starts with the events received at this time, in milliseconds since 1970. Default: with the newest. */
  beginAt?: number | undefined
  now?(): number
}

export interface Follower {
  /** Sends one request, at the beginning two. Resolves with the pause before the next step, in milliseconds. */
  step(signal: AbortSignal): Promise<number>
  /** The time from which it has read, and that of the project's first event; undefined until then. */
  beginning(): Beginning | undefined
  /** Whether events were skipped in the last seconds. */
  isSampled(): boolean
  /** Whether events after the last one were skipped. */
  isAfterGap(): boolean
  /** Events received per second, over the last ten seconds; undefined in the first ten after a start or a pause. */
  receivedPerSecond(): number | undefined
  /** When the server last refused the cursor. It then restarted with the newest events. */
  cursorRefusedAt(): number | undefined
}

/** In milliseconds since 1970. */
export interface Beginning {
  from: number
  firstAt: number
}

/**
 * Follows the events of a project from its newest ones, with at most two requests per second. A full response means
 * that there are more events: the next request skips to the end of the log.
 */
export function createFollower({ read, stats, onEvents, beginAt, now = Date.now }: FollowOptions): Follower {
  let begunAt: number | undefined
  let beginning: Beginning | undefined
  /** If undefined, read from the beginning. */
  let after: string | undefined
  let limit = firstLimit
  let isAfterGap = false
  let fullInRow = 0
  let skippedAt: number | undefined
  let refusedAt: number | undefined
  let hasFailed = false
  let received: { at: number; count: number }[] = []

  async function begin(signal: AbortSignal): Promise<void> {
    const { events, firstAt, lastAt } = await stats(signal)
    if (firstAt !== null && lastAt !== null) {
      const first = Date.parse(firstAt)
      const at = refusedAt === undefined ? beginAt : undefined
      const from = events < firstLimit ? first : (at ?? Date.parse(lastAt)) - beginningMs
      const to = at === undefined ? undefined : at + 1
      await take(await read({ from, to, limit }, signal), signal)
      // the events at the beginning may have been erased in the meantime
      after ??= 'end'
      beginning ??= { from, firstAt: first }
    }
    begunAt = now()
  }

  async function poll(signal: AbortSignal): Promise<void> {
    try {
      // no long poll after a failure: it would delay the news that the server is back
      await take(await read({ after, limit, wait: hasFailed ? 0 : waitSeconds }, signal), signal)
      hasFailed = false
    } catch (error) {
      hasFailed = true
      if (!(error instanceof RequestError) || error.problem.code !== 'invalid-cursor') throw error
      refusedAt = now()
      begunAt = undefined
      after = undefined
      isAfterGap = true
    }
  }

  async function take(lines: EventLine[], signal: AbortSignal): Promise<void> {
    const events = eventsOf(lines)
    if (events.length > 0) await onEvents(events, isAfterGap, signal)
    received = [...received.filter(({ at }) => isRecent(at)), { at: now(), count: events.length }]
    after = lines.at(-1)?.cursor ?? after
    if (events.length === 0) return
    isAfterGap = false
    fullInRow = events.length >= limit ? fullInRow + 1 : 0
    if (fullInRow >= fullInRowMax) {
      skippedAt = now()
      skipToEnd()
    }
    limit = nextLimit(events)
  }

  function skipToEnd(): void {
    after = 'end'
    isAfterGap = true
    fullInRow = 0
  }

  function isRecent(at: number | undefined): boolean {
    return at !== undefined && at > now() - windowMs
  }

  return {
    async step(signal) {
      const sentAt = now()
      if (begunAt === undefined) {
        await begin(signal)
        return 0
      }
      // events that waited while the tab was hidden are not a rate
      const isResumed = sentAt - (received.at(-1)?.at ?? sentAt) > windowMs
      await poll(signal)
      if (isResumed && begunAt !== undefined) begunAt = now()
      return Math.max(0, sentAt + requestIntervalMs - now())
    },
    beginning: () => beginning,
    isSampled: () => isRecent(skippedAt),
    isAfterGap: () => isAfterGap,
    receivedPerSecond() {
      if (begunAt === undefined || isRecent(begunAt)) return undefined
      const recent = received.filter(({ at }) => isRecent(at))
      return recent.reduce((sum, { count }) => sum + count, 0) / (windowMs / 1000)
    },
    cursorRefusedAt: () => refusedAt,
  }
}

/** The lines with an event, without erased events and lines with only a cursor. */
export function eventsOf(lines: EventLine[]): EventLine[] {
  return lines.filter(({ text }) => text !== undefined)
}

/** The limit of the next response, from the size of these events. */
export function nextLimit(events: EventLine[]): number {
  const chars = events.reduce((sum, { text = '' }) => sum + text.length, 0)
  return Math.max(limitMin, Math.min(limitMax, Math.floor((responseCharsAim * events.length) / chars)))
}
