import { useMemo } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import type { Loaded } from '../../api/use-api.ts'
import { formatMinute, formatRate, formatTime } from '../../format.ts'
import { Chart } from '../../parts/chart.tsx'
import { DetailsTable } from '../../parts/details-table.tsx'
import { Time } from '../../parts/time.tsx'
import {
  addGap,
  addSample,
  emptyHistory,
  historyMs,
  type RateHistory,
  ratesByMinute,
  summarizeRates,
} from './rate-history.ts'

export interface StatsAndRates {
  stats: Stats
  history: RateHistory
}

/** By session, so that the chart goes on after a look at another view. */
const histories = new WeakMap<Api, RateHistory>()

export async function loadStatsAndRates(api: Api, signal: AbortSignal): Promise<StatsAndRates> {
  const before = histories.get(api) ?? emptyHistory
  try {
    const stats = await api.json<Stats>('v1/stats', { signal })
    const history = addSample(before, { at: Date.now(), events: stats.events })
    histories.set(api, history)
    return { stats, history }
  } catch (error) {
    if (!signal.aborted) histories.set(api, addGap(before, Date.now()))
    throw error
  }
}

/** A chart with less than this looks empty. */
const windowMsMin = 30_000

/** Events per second as a live chart. */
export function Rates({ loaded: { data, error } }: { loaded: Loaded<StatsAndRates> }) {
  const history = data?.history ?? emptyHistory
  const { points } = history
  const times = useMemo(() => points.map(({ at }) => at), [points])
  const values = useMemo(() => points.map(({ perSecond }) => perSecond), [points])
  // without samples, time goes on too: a gap grows
  const to = error ? Date.now() : (times.at(-1) ?? Date.now())
  const from = Math.max(to - historyMs, Math.min(times[0] ?? to, to - windowMsMin))
  const summary = summarizeRates(history)
  const isKnown = !error && points.at(-1)?.perSecond != null
  return (
    <section aria-labelledby="rates">
      <h2 id="rates">Events per second</h2>
      <p class="headline">
        <strong>{isKnown ? formatRate(summary?.last ?? 0) : '–'}</strong> {isKnown ? 'events/s now' : 'not known now'}
        {data && <span class="muted">{formatRate(data.stats.eventsPerSecond)}/s over the last minute</span>}
        {summary && summary.peak.perSecond > 0 && (
          <span class="muted">
            peak {formatRate(summary.peak.perSecond)}/s at <Time at={summary.peak.at} />
          </span>
        )}
      </p>
      <Chart
        kind="line"
        label={describeRates(history)}
        {...{ times, values, from, to }}
        stroke="--chart-line"
        fill="--chart-fill"
        height={240}
        formatValue={(value) => `${formatRate(value)} events/s`}
      />
      <p class="hint">
        Events stored by all servers, measured every 2 s while this tab is visible, for up to 10 minutes.
      </p>
      <DetailsTable
        summary="Events per second by minute"
        head={['Minute', 'Mean', 'Peak']}
        rows={() => toRows(history)}
      />
    </section>
  )
}

function describeRates(history: RateHistory): string {
  const summary = summarizeRates(history)
  const first = history.points[0]
  if (!summary || !first) return 'Line chart of events per second: not measured yet.'
  const { last, mean, peak } = summary
  return `Line chart of events per second since ${formatTime(first.at)}: ${formatRate(last)} at its end, ${formatRate(mean)} on average, at most ${formatRate(peak.perSecond)} at ${formatTime(peak.at)}.`
}

function toRows(history: RateHistory) {
  return ratesByMinute(history)
    .toReversed()
    .map(({ at, mean, peak }) => (
      <tr key={at}>
        <td>
          <Time at={at} format={formatMinute} />
        </td>
        <td class="number">{formatRate(mean)}</td>
        <td class="number">{formatRate(peak)}</td>
      </tr>
    ))
}
