import { formatMinute, formatTime } from '../format.ts'

/** The steps of a range in a response, which become bars. */
export interface Steps {
  stepSeconds: number
  /** Oldest first, without gaps. */
  steps: readonly { at: string }[]
}

/** The start of a step; includes the day if the steps are hours. */
export function formatStepTime(at: string, stepSeconds: number): string {
  return stepSeconds < 3_600 ? formatMinute(Date.parse(at)) : formatTime(Date.parse(at))
}

/** Labels for the ends of an axis. */
export function endsOf({ steps, stepSeconds }: Steps): [string, string] {
  return [steps[0], steps.at(-1)].map((step) => (step ? formatStepTime(step.at, stepSeconds) : '')) as [string, string]
}

const names: Readonly<Record<number, string>> = { 60: 'minute', 600: '10 minutes', 3600: 'hour' }

/** `minute`: completes "by …". */
export function nameOfStep(stepSeconds: number): string {
  return names[stepSeconds] ?? `${stepSeconds} s`
}

/** Describes a chart for screen readers. */
export function describeCounts(what: string, { steps, stepSeconds }: Steps, counts: readonly number[]): string {
  const peak = Math.max(0, ...counts)
  const at = steps[counts.indexOf(peak)]?.at
  const most = peak > 0 && at !== undefined ? `most at ${formatStepTime(at, stepSeconds)}, ${peak}` : 'none'
  return `${what} by ${nameOfStep(stepSeconds)}: ${most}.`
}
