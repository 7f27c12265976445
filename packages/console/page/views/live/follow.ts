import type { Query } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import type { EventLine } from '../../api/event-lines.ts'
import { RequestError } from '../../api/request-error.ts'

/** Seconds that the server may hold a response. */
export const waitSeconds = 25
/** After this many full responses in a row, the page counts as behind. */
const fullInRowMax = 2
const requestIntervalMs = 500
/** Limits of one response: the first, and those that follow from the size of its events. */
const firstLimit = 100
const limitMax = 500
const limitMin = 20
/** Bursts of up to this many events are shown completely. */
export const burstMax = (fullInRowMax - 1) * limitMax
const responseCharsAim = 4 * 2 ** 20
/** How far before the last event the first requests look, one after the other, until they find enough. */
const spansMs = [50, 250, 1_000, 10_000, 120_000, 1_200_000, 4 * 3_600_000, 48 * 3_600_000, 480 * 3_600_000]
const enoughEvents = 50
/** Rates and the sampling are those of the last seconds. */
const windowMs = 10_000

export interface FollowOptions {
  /** One response of `GET /v1/events`. */
  read(query: Query, signal: AbortSignal): Promise<EventLine[]>
  stats(signal: AbortSignal): Promise<Pick<Stats, 'events' | 'lastAt'>>
  /** Events oldest first. `isAfterGap`: some before them were left out. If it fails, they are read again. */
  onEvents(events: EventLine[], isAfterGap: boolean, signal: AbortSignal): Promise<void>
  now?(): number
}

export interface Follower {
  /** One request, or a few at the beginning. Resolves with the pause before the next step, in milliseconds. */
  step(signal: AbortSignal): Promise<number>
  /** Whether events were skipped in the last seconds. */
  isSampled(): boolean
  /** Whether events after the last one were skipped. */
  isAfterGap(): boolean
  /** Events received per second, over the last ten seconds; undefined before they are over. */
  receivedPerSecond(): number | undefined
  /** When the server last refused the cursor. It then began again with the newest events. */
  cursorRefusedAt(): number | undefined
}

/**
 * Follows the events of a project from its newest ones on, with two requests per second at most. A full response means
 * that more is behind it: the next one begins at the end.
 */
export function createFollower({ read, stats, onEvents, now = Date.now }: FollowOptions): Follower {
  let begunAt: number | undefined
  /** From the beginning if undefined. */
  let after: string | undefined
  let limit = firstLimit
  let isAfterGap = false
  let fullInRow = 0
  let skippedAt: number | undefined
  let refusedAt: number | undefined
  let received: { at: number; count: number }[] = []

  async function poll(signal: AbortSignal): Promise<void> {
    try {
      await take(await read({ after, limit, wait: waitSeconds }, signal), signal)
    } catch (error) {
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
        await take(await readNewest((query) => read(query, signal), await stats(signal)), signal)
        begunAt = now()
      } else await poll(signal)
      return Math.max(0, sentAt + requestIntervalMs - now())
    },
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

/** The newest events, oldest first, and the cursor behind them. Costs a few index look-ups, however long the log is. */
async function readNewest(
  read: (query: Query) => Promise<EventLine[]>,
  { events, lastAt }: Pick<Stats, 'events' | 'lastAt'>,
): Promise<EventLine[]> {
  if (lastAt === null) return []
  if (events < firstLimit) return read({ limit: firstLimit })
  let newest: EventLine[] = []
  for (const span of spansMs) {
    const lines = await read({ from: Date.parse(lastAt) - span, limit: firstLimit })
    const count = eventsOf(lines).length
    // a full response holds the oldest events of its span: those of a shorter span reach the end
    if (count >= firstLimit && newest.length > 0) break
    newest = lines
    if (count >= enoughEvents) break
  }
  return newest
}

function eventsOf(lines: EventLine[]): EventLine[] {
  return lines.filter(({ text }) => text !== undefined)
}

function nextLimit(events: EventLine[]): number {
  const chars = events.reduce((sum, { text = '' }) => sum + text.length, 0)
  return Math.max(limitMin, Math.min(limitMax, Math.floor((responseCharsAim * events.length) / chars)))
}
