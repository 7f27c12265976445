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
 * Loads the activity of a day before for a range of up to a day, that of a week before for one of up to a week, and none
 * for a longer one. Undefined if the project did not exist yet when that time began: it would seem to have sent less.
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
    // earlier counts do not change, but a live range moves
    (data) => (isLive && data ? data.types.stepSeconds * 1000 : undefined),
  )
  if (!data || !firstAt || Date.parse(firstAt) >= Date.parse(data.types.from)) return undefined
  return { name, shiftMs, ...data }
}

/** The accepted events of a type or build; undefined if it may be among those that are only counted together. */
export function acceptedOf({ groups = [] }: Activity, name: string): number | undefined {
  const isWhole = groups.every((group) => group.name !== null)
  return groups.find((group) => group.name === name)?.accepted ?? (isWhole ? 0 : undefined)
}

/** The range of the address, up to now if it is live, as parameters of the API; moved back by `earlierMs`. */
export function rangeNow(query: URLSearchParams, earlierMs = 0): { from: string; to: string } {
  const { from, to } = parseRange(query, Date.now())
  return { from: new Date(from - earlierMs).toISOString(), to: new Date(to - earlierMs).toISOString() }
}

/** The poll interval: longer steps change less and cost more to read. */
export function pollMsOf({ stepSeconds }: { stepSeconds: number }): number {
  return stepSeconds <= 60 ? 5_000 : 30_000
}
