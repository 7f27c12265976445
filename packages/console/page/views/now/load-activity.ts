import type { Activity } from '../../api/bodies.ts'
import { type Loaded, useLoaded } from '../../api/use-api.ts'
import { parseRange } from '../../range.ts'

const dayMs = 86_400_000

/** The activity in the range of an address, by type or build; polled while the range ends now. */
export function useActivity(query: URLSearchParams, by: 'type' | 'build'): Loaded<Activity> {
  const { choice, isLive } = parseRange(query, Date.now())
  return useLoaded(
    (api, signal) => api.json<Activity>('v1/activity', { query: { ...rangeNow(query), by }, signal }),
    [JSON.stringify(choice), by],
    isLive ? pollMsOf : undefined,
  )
}

/** The activity of the last day, by type or build, whatever the range. */
export function useLastDay(by: 'type' | 'build'): Loaded<Activity> {
  return useLoaded(
    (api, signal) => {
      const from = new Date(Date.now() - dayMs).toISOString()
      return api.json<Activity>('v1/activity', { query: { from, by }, signal })
    },
    [by],
    dayPollMs,
  )
}

const dayPollMs = 60_000

/** The same range a day or a week before. */
export interface Before {
  /** Completes "… before". */
  name: 'day' | 'week'
  shiftMs: number
  types: Activity
  builds: Activity
}

/**
 * Loads a range of up to a day from a day before, one of up to a week from a week before, and no longer one. Undefined
 * if the project began within or after that time: it would seem to have sent less.
 */
export function useBefore(query: URLSearchParams, firstAt: string | null | undefined): Before | undefined {
  const { choice, from, to, isLive } = parseRange(query, Date.now())
  const name = to - from <= dayMs ? 'day' : 'week'
  const shiftMs = name === 'day' ? dayMs : 7 * dayMs
  const { data } = useLoaded(
    async (api, signal) => {
      if (to - from > shiftMs) return undefined
      const load = (by: 'type' | 'build') =>
        api.json<Activity>('v1/activity', { query: { ...rangeNow(query, shiftMs), by }, signal })
      const [types, builds] = await Promise.all([load('type'), load('build')])
      return { types, builds }
    },
    [JSON.stringify(choice)],
    // the past changes only as its range moves
    (data) => (isLive && data ? data.types.stepSeconds * 1000 : undefined),
  )
  if (!data || !firstAt || Date.parse(firstAt) >= Date.parse(data.types.from)) return undefined
  return { name, shiftMs, ...data }
}

/** How many events of a type or build were accepted; undefined if others are counted, and it may be among these. */
export function acceptedOf({ groups = [] }: Activity, name: string): number | undefined {
  const isWhole = groups.every((group) => group.name !== null)
  return groups.find((group) => group.name === name)?.accepted ?? (isWhole ? 0 : undefined)
}

/** The current range, or the one that began earlier, as parameters of the API. */
export function rangeNow(query: URLSearchParams, earlierMs = 0): { from: string; to: string } {
  const { from, to } = parseRange(query, Date.now())
  return { from: new Date(from - earlierMs).toISOString(), to: new Date(to - earlierMs).toISOString() }
}

/** The poll interval: longer steps change less and cost more to read. */
export function pollMsOf({ stepSeconds }: { stepSeconds: number }): number {
  return stepSeconds <= 60 ? 5_000 : 30_000
}
