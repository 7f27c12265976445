import { useMemo } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { Activity } from '../../api/bodies.ts'
import type { Loaded } from '../../api/use-api.ts'
import { formatCount, formatMinute } from '../../format.ts'
import { Chart } from '../../parts/chart.tsx'
import { Failure, Notice } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { fillMinutes, type Minute, minuteMs, type Outcome, outcomes, totalsOf } from './minutes.ts'

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
  const times = useMemo(() => minutes.map(({ at }) => at), [minutes])
  const values = useMemo(() => minutes.map(({ counts }) => counts?.[outcome] ?? null), [minutes])
  const total = totalsOf(minutes)[outcome]
  return (
    <div class={`outcome ${outcome}`}>
      <h3>
        {titles[outcome]} <strong>{formatCount(total)}</strong>
        {outcome === 'rejected' && total > 0 && <a href={formatAddress(['rejected'])}>See why</a>}
      </h3>
      <Chart
        label={describeMinutes(titles[outcome], times, values)}
        {...{ times, values }}
        from={times[0] ?? 0}
        to={(times.at(-1) ?? 0) + minuteMs}
        stroke={`--${outcome}`}
        fill={`--${outcome}`}
        height={140}
        formatValue={formatCount}
      />
    </div>
  )
}

function describeMinutes(title: string, times: readonly number[], values: readonly (number | null)[]): string {
  const peak = Math.max(0, ...values.map((value) => value ?? 0))
  const at = times[values.indexOf(peak)]
  const most = peak > 0 && at !== undefined ? `most at ${formatMinute(at)}, ${formatCount(peak)}` : 'none'
  return `Bar chart of the last 60 minutes. ${title}: ${most}; ${formatCount(values.at(-1) ?? 0)} in the current minute.`
}
