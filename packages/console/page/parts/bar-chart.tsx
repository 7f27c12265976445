import { formatCompact } from '../format.ts'
import './bar-chart.css'

export interface Bar {
  /** Shown on hover. */
  title: string
  value: number
  /** Whether the bar's step has not ended, so that the value is an estimate. */
  isEstimate?: boolean
}

export interface Mark {
  title: string
  /** Position from 0, the start of the first bar, to 1, the end of the last. */
  position: number
}

interface BarChartProps {
  /** Describes the chart for screen readers. */
  label: string
  /** Oldest first. */
  bars: readonly Bar[]
  marks?: readonly Mark[]
  /** Labels below the first and the last bar. */
  ends: readonly [string, string]
}

/** Bars from 0 to the largest value, as wide as the parent, in the colour `--bar`. */
export function BarChart({ label, bars, marks = [], ends }: BarChartProps) {
  const max = Math.max(1, ...bars.map(({ value }) => value))
  return (
    <div class="chart" role="img" aria-label={label}>
      <span class="max">{formatCompact(max)}</span>
      <div class={`bars ${bars.length > 120 ? 'dense' : ''}`}>
        {bars.map(({ title, value, isEstimate }) => (
          <span
            key={title}
            title={title}
            class={isEstimate ? 'estimate' : undefined}
            style={{ '--share': `${(100 * value) / max}%` }}
          />
        ))}
        {marks.map(({ title, position }) => (
          <i key={title} title={title} style={{ left: `${100 * position}%` }} />
        ))}
      </div>
      <div class="ends">
        <span>{ends[0]}</span>
        <span>{ends[1]}</span>
      </div>
    </div>
  )
}
