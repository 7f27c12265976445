import type { Activity, Build } from '../../api/bodies.ts'

/** Whether something started or stopped within a range. */
export type Trend = 'new' | 'stopped'

/** Fewer quiet steps at the start or end of a range are not significant. */
const quietStepsMin = 3

/**
 * The trend of counts, oldest first. Rare events have pauses: they count as started or stopped only after a silence
 * that is twice as long as their longest pause.
 */
export function trendOf(counts: readonly number[]): Trend | undefined {
  const busy = counts.flatMap((count, index) => (count > 0 ? [index] : []))
  const first = busy[0]
  const last = busy.at(-1)
  if (first === undefined || last === undefined) return undefined
  const pauses = busy.slice(1).map((index, i) => index - (busy[i] as number) - 1)
  const quietMin = Math.max(quietStepsMin, 2 * Math.max(0, ...pauses))
  if (counts.length - 1 - last >= quietMin) return 'stopped'
  return first >= quietMin ? 'new' : undefined
}

/**
 * The counts from the first to the last step in which the project received anything: at the ends, the whole project
 * started or stopped, not this type alone.
 */
export function busyCountsOf({ steps }: Activity, counts: readonly number[]): readonly number[] {
  const isBusy = ({ accepted, duplicates, rejected }: Activity['steps'][number]) => accepted + duplicates + rejected > 0
  return counts.slice(Math.max(0, steps.findIndex(isBusy)), steps.findLastIndex(isBusy) + 1)
}

/** Returns a function for when a build began: when it froze, if that is known, or else its first event of a range. */
export function beginningsOf(newest: readonly Build[]): (volume: { name: string | null; firstAt: string }) => number {
  const frozenAt = new Map<string | null, string | null>(newest.map((build) => [build.buildId, build.frozenAt]))
  // a build whose events are all rejected does not freeze
  return ({ name, firstAt }) => Date.parse(frozenAt.get(name) ?? firstAt)
}
