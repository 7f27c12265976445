import { formatMinute } from '../format.ts'

/** The steps of a range in a response, which become bars. */
export interface Steps {
  stepSeconds: number
  /** Oldest first, without gaps. */
  steps: readonly { at: string }[]
}

/** Labels for the ends of an axis. */
export function endsOf({ steps }: Steps): [string, string] {
  return [steps[0], steps.at(-1)].map((step) => (step ? formatMinute(Date.parse(step.at)) : '')) as [string, string]
}

const names: Readonly<Record<number, string>> = { 60: 'minute', 600: '10 minutes', 3600: 'hour' }

/** `minute`: completes "per …". */
export function nameOfStep(stepSeconds: number): string {
  return names[stepSeconds] ?? `${stepSeconds} s`
}

/** Describes a chart for screen readers. */
export function describeCounts(what: string, { steps, stepSeconds }: Steps, counts: readonly number[]): string {
  const peak = Math.max(0, ...counts)
  const at = steps[counts.indexOf(peak)]?.at
  const most = peak > 0 && at !== undefined ? `most at ${formatMinute(Date.parse(at))}, ${peak}` : 'none'
  return `${what} per ${nameOfStep(stepSeconds)}: ${most}.`
}
