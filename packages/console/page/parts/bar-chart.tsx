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
  /** Earlier counts of each step to compare with, drawn as lines. */
  before?: readonly (number | undefined)[] | undefined
  /** Current events per second, from which the bar of the last, unfinished step is estimated. */
  rate?: number | undefined
  marks: readonly Mark[]
  /** The range of the page: dragging across several bars zooms in to a part of it. */
  range: Range
}

/** Bars from 0 to the largest count, as wide as the parent, in the colour `--bar`. */
export function BarChart({ what, steps, counts, before = [], rate, marks, range }: BarChartProps) {
  const { first, last, listeners } = useDraggedBars(counts.length, (first, last) => {
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
            class={[isEstimate && 'estimate', first <= index && index <= last && 'dragged'].filter(Boolean).join(' ')}
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

/** The bars across which a pointer is being dragged. Releasing it calls `onZoom` if they are several. */
function useDraggedBars(count: number, onZoom: (first: number, last: number) => void) {
  const [dragged, setDragged] = useState<readonly [from: number, to: number]>()
  const [first, last] = dragged ? [Math.min(...dragged), Math.max(...dragged)] : [-1, -1]
  function barAt({ currentTarget, clientX }: TargetedPointerEvent<HTMLElement>): number {
    const { left, width } = currentTarget.getBoundingClientRect()
    return Math.max(0, Math.min(count - 1, Math.floor(((clientX - left) / width) * count)))
  }
  const listeners = {
    onPointerDown(event: TargetedPointerEvent<HTMLElement>) {
      if (event.button !== 0) return
      event.currentTarget.setPointerCapture(event.pointerId)
      setDragged([barAt(event), barAt(event)])
    },
    onPointerMove: (event: TargetedPointerEvent<HTMLElement>) => dragged && setDragged([dragged[0], barAt(event)]),
    onPointerUp() {
      if (last > first) onZoom(first, last)
      setDragged(undefined)
    },
    onPointerCancel: () => setDragged(undefined),
  }
  return { first, last, listeners }
}
