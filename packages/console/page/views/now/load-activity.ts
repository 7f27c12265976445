import type { Activity } from '../../api/bodies.ts'
import { type Loaded, useLoaded } from '../../api/use-api.ts'
import { parseRange, type Range } from '../../range.ts'

/** The activity in the range of an address, by type or build; polled while the range ends now. */
export function useActivity(query: URLSearchParams, by: 'type' | 'build'): Loaded<Activity> {
  const { choice, isLive } = parseRange(query, Date.now())
  return useLoaded(
    (api, signal) => api.json<Activity>('v1/activity', { query: { ...rangeNow(query), by }, signal }),
    [JSON.stringify(choice), by],
    isLive ? pollMsOf : undefined,
  )
}

/** The current range, as parameters of the API. */
export function rangeNow(query: URLSearchParams): { from: string; to: string } {
  const { from, to }: Range = parseRange(query, Date.now())
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
}

/** The poll interval: longer steps change less and cost more to read. */
export function pollMsOf({ stepSeconds }: { stepSeconds: number }): number {
  return stepSeconds <= 60 ? 5_000 : 30_000
}
