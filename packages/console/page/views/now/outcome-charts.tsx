import { formatAddress } from '../../address.ts'
import type { Activity } from '../../api/bodies.ts'
import { formatCount, formatMinute, formatRate } from '../../format.ts'
import { type Bar, BarChart, type Mark } from '../../parts/bar-chart.tsx'
import { type Release, ReleaseList, releasesWithin } from '../../parts/releases.tsx'
import { describeCounts, endsOf, nameOfStep } from '../../parts/steps.ts'
import { keepRange, zoomTo } from '../../range.ts'
import type { Before } from './load-activity.ts'
import { formatShare } from './trend.ts'

export const outcomes = ['accepted', 'duplicates', 'rejected'] as const
type Outcome = (typeof outcomes)[number]

const titles: Readonly<Record<Outcome, string>> = {
  accepted: 'Accepted',
  duplicates: 'Duplicates',
  rejected: 'Rejected',
}

interface OutcomeChartsProps {
  activity: Activity
  releases: readonly Release[]
  /** What they are compared with. */
  before: Before | undefined
  /** Current events per second, if the last step is the current one. */
  rate: number | undefined
  query: URLSearchParams
}

/** Accepted, duplicates and rejected by step, each with a scale of its own, so that 3 of 100,000 remain visible. */
export function OutcomeCharts({ activity, before, releases, rate, query }: OutcomeChartsProps) {
  const marks = releasesWithin(releases, activity)
  const { servers, stepSeconds } = activity
  return (
    <section aria-labelledby="outcomes">
      <h2 id="outcomes">Outcomes per {nameOfStep(stepSeconds)}</h2>
      <div class="outcomes">
        {outcomes.map((outcome) => (
          <OutcomeChart
            key={outcome}
            outcome={outcome}
            activity={activity}
            before={before}
            marks={marks}
            rate={outcome === 'accepted' ? rate : undefined}
            query={query}
          />
        ))}
      </div>
      {before && <p class="hint">The lines across the bars are the same time a {before.name} before.</p>}
      <ReleaseList releases={marks} />
      {servers > 1 && (
        <p class="hint">Counted by {formatCount(servers)} servers. Counts of the others are up to a minute old.</p>
      )}
    </section>
  )
}

interface OutcomeChartProps extends Pick<OutcomeChartsProps, 'activity' | 'before' | 'rate' | 'query'> {
  outcome: Outcome
  marks: readonly Mark[]
}

function OutcomeChart({ outcome, activity, before, marks, rate, query }: OutcomeChartProps) {
  const { steps, stepSeconds } = activity
  const total = totalOf(activity, outcome)
  const valueBefore = new Map(before?.activity.steps.map((step) => [Date.parse(step.at), step[outcome]]))
  const bars: Bar[] = steps.map((step) => {
    const at = Date.parse(step.at)
    return {
      title: `${formatMinute(at)} · ${formatCount(step[outcome])}`,
      value: step[outcome],
      before: before && valueBefore.get(at - before.shiftMs),
    }
  })
  const last = bars.pop()
  if (last) bars.push(rate === undefined ? last : estimate(last, rate, stepSeconds))
  const counts = steps.map((step) => step[outcome])
  const timeOf = (index: number) => Date.parse(steps[index]?.at ?? '')
  return (
    <div class={`outcome ${outcome}`}>
      <h3>
        {titles[outcome]} <strong>{formatCount(total)}</strong>{' '}
        {before && (
          <span>
            {formatCount(totalOf(before.activity, outcome))} a {before.name} before
          </span>
        )}
        {outcome === 'rejected' && total > 0 && (
          <>
            <span>
              {formatShare(
                total,
                outcomes.reduce((sum, each) => sum + totalOf(activity, each), 0),
              )}
            </span>
            <a href={formatAddress(['rejected'], keepRange(query))}>See why</a>
          </>
        )}
      </h3>
      <BarChart
        label={describeCounts(titles[outcome], activity, counts)}
        bars={bars}
        marks={marks}
        ends={endsOf(activity)}
        onZoom={(first, last) => zoomTo(timeOf(first), timeOf(last) + stepSeconds * 1000)}
      />
    </div>
  )
}

/** The bar of the current, unfinished step: extrapolated from the rate. */
function estimate({ title, value }: Bar, rate: number, stepSeconds: number): Bar {
  const expected = Math.max(value, Math.round(rate * stepSeconds))
  return { title: `${title} so far, ${formatRate(rate)} per second now`, value: expected, isEstimate: true }
}

function totalOf({ steps }: Activity, outcome: Outcome): number {
  return steps.reduce((sum, step) => sum + step[outcome], 0)
}
