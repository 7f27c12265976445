import type { Activity } from '../../api/bodies.ts'

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
 * The counts from the first to the last step in which the project received anything: before and after, nothing has
 * begun or stopped by itself.
 */
export function busyCountsOf({ steps }: Activity, counts: readonly number[]): readonly number[] {
  const isBusy = ({ accepted, duplicates, rejected }: Activity['steps'][number]) => accepted + duplicates + rejected > 0
  return counts.slice(Math.max(0, steps.findIndex(isBusy)), steps.findLastIndex(isBusy) + 1)
}

/** `4.6 %`, or `< 0.1 %`, so that a share above 0 is never shown as 0. */
export function formatShare(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %'
  const percent = (100 * part) / whole
  if (percent < 0.1) return '< 0.1 %'
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`
}
