import { useMemo } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { Activity } from '../../api/bodies.ts'
import type { Loaded } from '../../api/use-api.ts'
import { formatCompact, formatCount, formatMinute } from '../../format.ts'
import { Failure, Notice } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { fillMinutes, type Minute, type Outcome, outcomes, totalsOf } from './minutes.ts'

const titles: Readonly<Record<Outcome, string>> = {
  accepted: 'Accepted',
  duplicates: 'Duplicates',
  rejected: 'Rejected',
}

/** Accepted, duplicates and rejected by minute, each with a scale of its own: three of 100,000 stay visible. */
export function MinutesCharts({ loaded: { data, error } }: { loaded: Loaded<Activity> }) {
  const minutes = useMemo(() => data && fillMinutes(data, Date.now()), [data])
  return (
    <section aria-labelledby="minutes">
      <h2 id="minutes">Outcomes by minute, in the last hour</h2>
      {error?.kind === 'unsupported' && <Failure error={error} what="count events by minute" />}
      {!data && !error && <Notice kind="loading">Loading…</Notice>}
      {data && minutes && <Charts activity={data} minutes={minutes} />}
    </section>
  )
}

function Charts({ activity: { since, servers }, minutes }: { activity: Activity; minutes: readonly Minute[] }) {
  return (
    <>
      <div class="outcomes">
        {outcomes.map((outcome) => (
          <OutcomeChart key={outcome} outcome={outcome} minutes={minutes} />
        ))}
      </div>
      <p class="hint">
        Counted by the server process that responds, since <Time at={since} />
        {servers > 1 && `: one of ${formatCount(servers)} servers, each of which counts what it receives`}. The last bar
        is the current minute.
      </p>
    </>
  )
}

function OutcomeChart({ outcome, minutes }: { outcome: Outcome; minutes: readonly Minute[] }) {
  const total = totalsOf(minutes)[outcome]
  return (
    <div class={`outcome ${outcome}`}>
      <h3>
        {titles[outcome]} <strong>{formatCount(total)}</strong>
        {outcome === 'rejected' && total > 0 && <a href={formatAddress(['rejected'])}>See why</a>}
      </h3>
      <BarChart
        label={describeMinutes(outcome, minutes)}
        bars={minutes.map(({ at, counts }) => ({
          title: `${formatMinute(at)} · ${counts ? formatCount(counts[outcome]) : 'not known'}`,
          value: counts?.[outcome] ?? null,
        }))}
        ends={[formatMinute(minutes[0]?.at ?? 0), formatMinute(minutes.at(-1)?.at ?? 0)]}
      />
    </div>
  )
}

function describeMinutes(outcome: Outcome, minutes: readonly Minute[]): string {
  const counts = minutes.map(({ counts }) => counts?.[outcome] ?? 0)
  const peak = Math.max(0, ...counts)
  const at = minutes[counts.indexOf(peak)]?.at ?? 0
  const most = peak > 0 ? `most at ${formatMinute(at)}, ${formatCount(peak)}` : 'none'
  return `Bar chart of the last 60 minutes. ${titles[outcome]}: ${most}; ${formatCount(counts.at(-1) ?? 0)} in the current minute.`
}

interface BarChartProps {
  /** Describes the chart for screen readers. */
  label: string
  /** Oldest first; a null value is a gap. */
  bars: readonly { title: string; value: number | null }[]
  /** Below the first and the last bar. */
  ends: readonly [string, string]
}

/** Bars from 0 to the largest value, as wide as the parent, in the colour of `--bar`. */
function BarChart({ label, bars, ends }: BarChartProps) {
  const max = Math.max(1, ...bars.map(({ value }) => value ?? 0))
  return (
    <div class="chart" role="img" aria-label={label}>
      <span class="max">{formatCompact(max)}</span>
      <div class="bars">
        {bars.map(({ title, value }) => (
          <span key={title} title={title} style={{ '--share': `${(100 * (value ?? 0)) / max}%` }} />
        ))}
      </div>
      <div class="ends">
        <span>{ends[0]}</span>
        <span>{ends[1]}</span>
      </div>
    </div>
  )
}
