import { formatAddress } from '../../address.ts'
import type { Activity } from '../../api/bodies.ts'
import type { Loaded } from '../../api/use-api.ts'
import { formatCompact, formatCount, formatMinute } from '../../format.ts'
import { Failure, Notice } from '../../parts/notice.tsx'
import { type Minute, type Outcome, outcomes, totalOf } from './minutes.ts'

const titles: Readonly<Record<Outcome, string>> = {
  accepted: 'Accepted',
  duplicates: 'Duplicates',
  rejected: 'Rejected',
}

/** Accepted, duplicates and rejected by minute, each with a scale of its own: three of 100,000 stay visible. */
export function MinutesCharts({ loaded: { data, error } }: { loaded: Loaded<Activity> }) {
  return (
    <section aria-labelledby="minutes">
      <h2 id="minutes">Outcomes by minute, in the last hour</h2>
      {error?.kind === 'unsupported' && <Failure error={error} what="count events by minute" />}
      {!data && !error && <Notice kind="loading">Loading…</Notice>}
      {data && <Charts minutes={data.steps.slice(-60)} />}
    </section>
  )
}

function Charts({ minutes }: { minutes: readonly Minute[] }) {
  return (
    <>
      <div class="outcomes">
        {outcomes.map((outcome) => (
          <OutcomeChart key={outcome} outcome={outcome} minutes={minutes} />
        ))}
      </div>
      <p class="hint">Counted by all servers of the store. The last bar is the current minute.</p>
    </>
  )
}

function OutcomeChart({ outcome, minutes }: { outcome: Outcome; minutes: readonly Minute[] }) {
  const total = totalOf(outcome, minutes)
  const timeOf = (minute: Minute | undefined) => formatMinute(Date.parse(minute?.at ?? ''))
  return (
    <div class={`outcome ${outcome}`}>
      <h3>
        {titles[outcome]} <strong>{formatCount(total)}</strong>
        {outcome === 'rejected' && total > 0 && <a href={formatAddress(['rejected'])}>See why</a>}
      </h3>
      <BarChart
        label={describeMinutes(outcome, minutes)}
        bars={minutes.map((minute) => ({
          title: `${timeOf(minute)} · ${formatCount(minute[outcome])}`,
          value: minute[outcome],
        }))}
        ends={[timeOf(minutes[0]), timeOf(minutes.at(-1))]}
      />
    </div>
  )
}

function describeMinutes(outcome: Outcome, minutes: readonly Minute[]): string {
  const counts = minutes.map((minute) => minute[outcome])
  const peak = Math.max(0, ...counts)
  const at = Date.parse(minutes[counts.indexOf(peak)]?.at ?? '')
  const most = peak > 0 ? `most at ${formatMinute(at)}, ${formatCount(peak)}` : 'none'
  return `Bar chart of the last 60 minutes. ${titles[outcome]}: ${most}; ${formatCount(counts.at(-1) ?? 0)} in the current minute.`
}

interface BarChartProps {
  /** Describes the chart for screen readers. */
  label: string
  /** Oldest first. */
  bars: readonly { title: string; value: number }[]
  /** Below the first and the last bar. */
  ends: readonly [string, string]
}

/** Bars from 0 to the largest value, as wide as the parent, in the colour of `--bar`. */
function BarChart({ label, bars, ends }: BarChartProps) {
  const max = Math.max(1, ...bars.map(({ value }) => value))
  return (
    <div class="chart" role="img" aria-label={label}>
      <span class="max">{formatCompact(max)}</span>
      <div class="bars">
        {bars.map(({ title, value }) => (
          <span key={title} title={title} style={{ '--share': `${(100 * value) / max}%` }} />
        ))}
      </div>
      <div class="ends">
        <span>{ends[0]}</span>
        <span>{ends[1]}</span>
      </div>
    </div>
  )
}
