import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import type { Api, Query } from '../../api/api.ts'
import type { EventLine } from '../../api/event-lines.ts'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat, useApi } from '../../api/use-api.ts'
import { type EventFilter, filterQuery } from '../../event-filter.ts'
import { createFollower, type Follower, firstLimit, type ReadEvents, waitSeconds } from './follow.ts'
import { createHeldEvents, type HeldEvent, type HeldEvents, type SeenValues, toHeldEvent } from './held-events.ts'
import { createHistory, type History } from './history.ts'

/** A longer response is parsed with pauses, so that the page stays responsive. */
const parsedAtOnceChars = 256 * 1024

interface FollowInputs {
  filter: EventFilter
  seen: SeenValues
  /** Starts with the events received at this time. Default: with the newest. */
  beginAt: number | undefined
  /** New events do not move the others. */
  isPaused: boolean
  /** Nothing after `beginAt` is read. */
  isPast: boolean
}

export interface Following {
  held: HeldEvents
  follower: Follower
  /** Undefined until the first response. */
  history: History | undefined
  /** Changes with each response. */
  version: number
  /** `stopped`: by a permanent error. */
  status: 'connecting' | 'following' | 'retrying' | 'stopped'
  error: RequestError | undefined
}

interface State {
  version: number
  error?: RequestError | undefined
  historyError?: RequestError | undefined
}

/** Follows the matching events of the project, after one search for earlier ones, while the view is open and visible. */
export function useFollow({ filter, seen, beginAt, isPaused, isPast }: FollowInputs): Following {
  const api = useApi()
  const connection = useContext(ConnectionContext)
  const [state, setState] = useState<State>({ version: 0 })
  const change = (changes: Partial<State>) =>
    setState((before) => ({ ...before, ...changes, version: before.version + 1 }))
  const { held, follower, read } = useMemo(() => createFollowing(api, { filter, seen, beginAt }), [api])
  const beginning = follower.beginning()
  const history = useMemo(
    () =>
      beginning &&
      createHistory(beginning, read, (lines, isAfterGap) => held.addEarlier(toHeldEvents(lines, seen, isAfterGap))),
    [beginning],
  )
  const isHeld = isPaused && !isPast
  useMemo(() => (isHeld ? held.hold() : held.release()), [held, isHeld])

  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    async function step(): Promise<number | undefined> {
      if (isPast && follower.beginning()) return undefined
      const pauseMs = await follower.step(signal)
      change({ error: undefined })
      return pauseMs
    }
    void repeat(step, { connection, signal, onError: (error) => change({ error }) })
    return () => ending.abort()
  }, [connection, follower, isPast])

  useEffect(() => {
    if (!history || held.events.length >= firstLimit) return
    const ending = new AbortController()
    const { signal } = ending
    async function step(): Promise<0 | undefined> {
      const next = held.isFull ? undefined : await history?.step(signal)
      change({ historyError: undefined })
      return next
    }
    void repeat(step, { connection, signal, onError: (historyError) => change({ historyError }) })
    return () => ending.abort()
  }, [connection, history])

  const { version, error, historyError } = state
  return {
    held,
    follower,
    history,
    version,
    status: statusOf(version, error),
    error: error ?? historyError,
  }
}

function statusOf(version: number, error: RequestError | undefined): Following['status'] {
  if (error) return error.isRetried ? 'retrying' : 'stopped'
  return version === 0 ? 'connecting' : 'following'
}

function createFollowing(api: Api, { filter, seen, beginAt }: Pick<FollowInputs, 'filter' | 'seen' | 'beginAt'>) {
  const held = createHeldEvents()
  const selected = filterQuery(filter)
  const read: ReadEvents = (query, signal) => readEvents(api, { ...selected, ...query }, signal)
  const follower = createFollower({
    read,
    beginAt,
    stats: (signal) => api.json('v1/stats', { signal }),
    async onEvents(lines, isAfterGap, signal) {
      const events = []
      for (const part of partsOf(lines)) {
        if (events.length > 0) await new Promise((resolve) => setTimeout(resolve))
        signal.throwIfAborted()
        events.push(...toHeldEvents(part, seen, isAfterGap && events.length === 0))
      }
      held.add(events)
    },
  })
  return { held, follower, read }
}

function* partsOf(lines: EventLine[]): Generator<EventLine[]> {
  let part: EventLine[] = []
  let chars = 0
  for (const line of lines) {
    part.push(line)
    chars += line.text?.length ?? 0
    if (chars < parsedAtOnceChars) continue
    yield part
    part = []
    chars = 0
  }
  if (part.length > 0) yield part
}

function toHeldEvents(lines: EventLine[], seen: SeenValues, isAfterGap: boolean): HeldEvent[] {
  return lines.map((line, i) => toHeldEvent(line, seen, isAfterGap && i === 0))
}

/** Reads one response of `GET /v1/events`, which may be a long poll. */
export async function readEvents(api: Api, query: Query, signal: AbortSignal): Promise<EventLine[]> {
  const timeoutMs = (waitSeconds + 15) * 1000
  return api.events({ query, signal, timeoutMs })
}
