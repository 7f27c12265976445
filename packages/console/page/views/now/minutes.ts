import type { Activity } from '../../api/bodies.ts'

export const outcomes = ['accepted', 'duplicates', 'rejected'] as const
export type Outcome = (typeof outcomes)[number]

/** The counts of one minute. */
export type MinuteCounts = Record<Outcome, number>

export interface Minute {
  /** When it begins, in milliseconds since 1970. */
  at: number
  /** Null for a minute that ended before the server began to count. */
  counts: MinuteCounts | null
}

export const minuteMs = 60_000
const minutesShown = 60

const noCounts: MinuteCounts = { accepted: 0, duplicates: 0, rejected: 0 }

/** The last 60 minutes, oldest first: those that the server leaves out had no events. */
export function fillMinutes({ since, minutes }: Activity, now: number): Minute[] {
  const known = new Map(minutes.map(({ at, ...counts }) => [Date.parse(at), counts]))
  // the clock of the server may be ahead
  const lastAt = Math.floor(Math.max(now, ...known.keys()) / minuteMs) * minuteMs
  const sinceMs = Date.parse(since)
  return Array.from({ length: minutesShown }, (_, index) => {
    const at = lastAt - (minutesShown - 1 - index) * minuteMs
    return { at, counts: known.get(at) ?? (at + minuteMs > sinceMs ? noCounts : null) }
  })
}

export function totalsOf(minutes: readonly Minute[]): MinuteCounts {
  const totals = { ...noCounts }
  for (const { counts } of minutes) {
    for (const outcome of outcomes) totals[outcome] += counts?.[outcome] ?? 0
  }
  return totals
}
