import type { TargetedPointerEvent } from 'preact'
import { useState } from 'preact/hooks'
import { formatCompact, formatCount, formatMinute, formatRate } from '../format.ts'
import { type Range, zoomTo } from '../range.ts'
import './bar-chart.css'
import { describeCounts, endsOf, type Steps } from './steps.ts'

export interface Mark {
  title: string
  /** Position from 0, the start of the first bar, to 1, the end of the last. */
  position: number
}

interface BarChartProps {
  /** What is counted, such as `Accepted`. */
  what: string
  steps: Steps
  /** The count of each step. */
  counts: readonly number[]
  /** The counts that they are compared with, drawn as lines. */
  before?: readonly (number | undefined)[] | undefined
  /** Current events per second: the bar of the last step, which has not ended, becomes an estimate. */
  rate?: number | undefined
  marks: readonly Mark[]
  /** The range of the page, in which a pointer that is drawn over several bars zooms in. */
  range: Range
}

/** Bars from 0 to the largest count, as wide as the parent, in the colour `--bar`. */
export function BarChart({ what, steps, counts, before = [], rate, marks, range }: BarChartProps) {
  const { first, last, listeners } = useDrawnBars(counts.length, (first, last) => {
    const timeOf = (step: number) => Date.parse(steps.steps[step]?.at ?? '')
    zoomTo(range, { from: timeOf(first), to: timeOf(last) + steps.stepSeconds * 1000 })
  })
  const bars = steps.steps.map(({ at }, step): Bar => {
    const count = counts[step] ?? 0
    const bar = { title: `${formatMinute(Date.parse(at))} · ${formatCount(count)}`, value: count, before: before[step] }
    return rate === undefined || step < steps.steps.length - 1 ? bar : estimate(bar, rate, steps)
  })
  const max = Math.max(1, ...bars.map(({ value, before = 0 }) => Math.max(value, before)))
  const share = (value: number) => `${(100 * value) / max}%`
  const [start, end] = endsOf(steps)
  return (
    <div class="chart" role="img" aria-label={describeCounts(what, steps, counts)}>
      <span class="max">{formatCompact(max)}</span>
      <div class={`bars ${bars.length > 120 ? 'dense' : ''}`} {...listeners}>
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
        <span>{start}</span>
        <span>{end}</span>
      </div>
    </div>
  )
}

interface Bar {
  /** Shown on hover. */
  title: string
  value: number
  before: number | undefined
  /** Whether the bar's step has not ended, so that the value is extrapolated from the rate. */
  isEstimate?: boolean
}

function estimate({ title, value, before }: Bar, rate: number, { stepSeconds }: Steps): Bar {
  const expected = Math.max(value, Math.round(rate * stepSeconds))
  return { title: `${title} so far, ${formatRate(rate)} per second now`, value: expected, before, isEstimate: true }
}

/** The bars over which a pointer is drawn; several are zoomed in to when it is released. */
function useDrawnBars(count: number, onZoom: (first: number, last: number) => void) {
  const [drawn, setDrawn] = useState<readonly [number, number]>()
  const [first, last] = drawn ? [Math.min(...drawn), Math.max(...drawn)] : [-1, -1]
  function barAt({ currentTarget, clientX }: TargetedPointerEvent<HTMLElement>): number {
    const { left, width } = currentTarget.getBoundingClientRect()
    return Math.max(0, Math.min(count - 1, Math.floor(((clientX - left) / width) * count)))
  }
  const listeners = {
    onPointerDown(event: TargetedPointerEvent<HTMLElement>) {
      if (event.button !== 0) return
      event.currentTarget.setPointerCapture(event.pointerId)
      setDrawn([barAt(event), barAt(event)])
    },
    onPointerMove: (event: TargetedPointerEvent<HTMLElement>) => drawn && setDrawn([drawn[0], barAt(event)]),
    onPointerUp() {
      if (last > first) onZoom(first, last)
      setDrawn(undefined)
    },
    onPointerCancel: () => setDrawn(undefined),
  }
  return { first, last, listeners }
}
