import { formatCompact } from '../format.ts'
import './bar-chart.css'

export interface BarChartProps {
  /** Describes the chart for screen readers. */
  label: string
  /** Oldest first; a null value is a gap. */
  bars: readonly { title: string; value: number | null }[]
  /** Below the first and the last bar. */
  ends: readonly [string, string]
}

/** Bars from 0 to the largest value, as wide as the parent, in the colour of `--bar`. */
export function BarChart({ label, bars, ends }: BarChartProps) {
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
