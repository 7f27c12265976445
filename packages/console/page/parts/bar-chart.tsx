import type { TargetedPointerEvent } from 'preact'
import { useState } from 'preact/hooks'
import { formatCompact } from '../format.ts'
import './bar-chart.css'

export interface Bar {
  /** Shown on hover. */
  title: string
  value: number
  /** The value that it is compared with, drawn as a line. */
  before?: number | undefined
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
  /** Called with the first and the last bar when a pointer is drawn over several. */
  onZoom?(first: number, last: number): void
}

/** Bars from 0 to the largest value, as wide as the parent, in the colour `--bar`. */
export function BarChart({ label, bars, marks = [], ends, onZoom }: BarChartProps) {
  const [drawn, setDrawn] = useState<readonly [number, number]>()
  const [first, last] = drawn ? [Math.min(...drawn), Math.max(...drawn)] : [-1, -1]
  const max = Math.max(1, ...bars.map(({ value, before = 0 }) => Math.max(value, before)))
  const share = (value: number) => `${(100 * value) / max}%`
  function barAt({ currentTarget, clientX }: TargetedPointerEvent<HTMLElement>): number {
    const { left, width } = currentTarget.getBoundingClientRect()
    return Math.max(0, Math.min(bars.length - 1, Math.floor(((clientX - left) / width) * bars.length)))
  }
  return (
    <div class="chart" role="img" aria-label={label}>
      <span class="max">{formatCompact(max)}</span>
      <div
        class={`bars ${bars.length > 120 ? 'dense' : ''}`}
        onPointerDown={(event) => {
          if (!onZoom || event.button !== 0) return
          event.currentTarget.setPointerCapture(event.pointerId)
          setDrawn([barAt(event), barAt(event)])
        }}
        onPointerMove={(event) => drawn && setDrawn([drawn[0], barAt(event)])}
        onPointerUp={() => {
          if (last > first) onZoom?.(first, last)
          setDrawn(undefined)
        }}
        onPointerCancel={() => setDrawn(undefined)}
      >
        {bars.map(({ title, value, before, isEstimate }, index) => (
          <span
            key={title}
            title={title}
            class={[isEstimate && 'estimate', first <= index && index <= last && 'drawn'].filter(Boolean).join(' ')}
            style={{ '--share': share(value), '--before': before === undefined ? undefined : share(before) }}
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
