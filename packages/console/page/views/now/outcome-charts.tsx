import { formatAddress } from '../../address.ts'
import type { Activity } from '../../api/bodies.ts'
import { formatCount, formatShare } from '../../format.ts'
import { BarChart, type Mark } from '../../parts/bar-chart.tsx'
import { type Release, ReleaseList, releasesWithin } from '../../parts/releases.tsx'
import { nameOfStep } from '../../parts/steps.ts'
import { keepRange, type Range } from '../../range.ts'
import type { Before } from './load-activity.ts'

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
  /** The earlier activity to compare with. */
  before: Before | undefined
  /** Current events per second, if the last step is the current one. */
  rate: number | undefined
  range: Range
  query: URLSearchParams
}

/** Accepted, duplicates and rejected by step, each with a scale of its own, so that 3 of 100,000 remain visible. */
export function OutcomeCharts({ activity, before, releases, rate, range, query }: OutcomeChartsProps) {
  const marks = releasesWithin(releases, activity)
  const { servers, stepSeconds } = activity
  return (
    <section aria-labelledby="outcomes">
      <h2 id="outcomes">Outcomes per {nameOfStep(stepSeconds)}</h2>
      <div class="outcomes">
        {outcomes.map((outcome) => (
          <OutcomeChart
            key={outcome}
            {...{ outcome, activity, before, marks, range, query }}
            rate={outcome === 'accepted' ? rate : undefined}
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

interface OutcomeChartProps extends Omit<OutcomeChartsProps, 'releases'> {
  outcome: Outcome
  marks: readonly Mark[]
}

function OutcomeChart({ outcome, activity, before, marks, rate, range, query }: OutcomeChartProps) {
  const { steps } = activity
  const total = totalOf(activity, outcome)
  const countBefore = new Map(before?.types.steps.map((step) => [Date.parse(step.at), step[outcome]]))
  return (
    <div class={`outcome ${outcome}`}>
      <h3>
        {titles[outcome]} <strong>{formatCount(total)}</strong>{' '}
        {before && (
          <span>
            {formatCount(totalOf(before.types, outcome))} a {before.name} before
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
        what={titles[outcome]}
        steps={activity}
        counts={steps.map((step) => step[outcome])}
        before={before && steps.map(({ at }) => countBefore.get(Date.parse(at) - before.shiftMs))}
        {...{ rate, marks, range }}
      />
    </div>
  )
}

function totalOf({ steps }: Activity, outcome: Outcome): number {
  return steps.reduce((sum, step) => sum + step[outcome], 0)
}
