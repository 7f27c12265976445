import { useEffect, useRef } from 'preact/hooks'
import './navigator-language.ts'
import uPlot from 'uplot'
import { formatCompact, formatMinute } from '../format.ts'
import './chart.css'

export interface ChartProps {
  /** What the chart shows, in a sentence: it takes the place of the picture. */
  label: string
  /** In milliseconds since 1970, ascending. A bar stands to the right of its time. */
  times: readonly number[]
  /** From 0 upwards; null where it is not known. */
  values: readonly (number | null)[]
  from: number
  to: number
  /** CSS custom properties, such as `--accepted`. */
  stroke: string
  fill: string
  /** In CSS pixels. */
  height: number
  /** Of the value under the pointer. */
  formatValue(value: number): string
}

/** A bar chart of one series over time from 0 upwards, as wide as its parent, in the colours of the page. */
export function Chart(props: ChartProps) {
  const { times, values, from, to, label } = props
  const container = useRef<HTMLDivElement>(null)
  const readout = useRef<HTMLSpanElement>(null)
  const plot = useRef<uPlot>(undefined)
  // what uPlot calls later uses the last properties
  const latest = useRef(props)
  latest.current = props

  useEffect(() => {
    const element = container.current as HTMLDivElement
    const show = (text: string) => {
      if (readout.current) readout.current.textContent = text
    }
    const chart = new uPlot(toOptions(latest, element, show), toData(latest.current), element)
    plot.current = chart
    const resizes = new ResizeObserver(() => {
      chart.setSize({ width: element.clientWidth, height: latest.current.height })
    })
    resizes.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const redraw = () => chart.redraw()
    scheme.addEventListener('change', redraw)
    return () => {
      scheme.removeEventListener('change', redraw)
      resizes.disconnect()
      chart.destroy()
    }
  }, [])
  useEffect(() => plot.current?.setData(toData(latest.current)), [times, values, from, to])

  return (
    <div class="chart" role="img" aria-label={label} ref={container}>
      <span class="readout" ref={readout} />
    </div>
  )
}

function toData({ times, values }: ChartProps): uPlot.AlignedData {
  return [times as number[], values as (number | null)[]]
}

type Latest = { readonly current: ChartProps }

function toOptions(latest: Latest, element: HTMLElement, show: (text: string) => void): uPlot.Options {
  const color = (name: string) => getComputedStyle(element).getPropertyValue(name)
  const { height } = latest.current
  const axis: uPlot.Axis = {
    font: `12px ${getComputedStyle(element).fontFamily}`,
    stroke: () => color('--muted'),
    grid: { stroke: () => color('--border'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: element.clientWidth,
    height,
    ms: 1,
    // on the right, space for half of the last label
    padding: [10, 28, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { range: () => [latest.current.from, latest.current.to] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max ?? 0) * 1.05] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 90, values: formatTimes },
      { ...axis, size: 48, space: 36, values: formatCounts, incrs: wholeSteps },
    ],
    series: [{}, { ...bars, ...toColors(latest, color) }],
    hooks: { setCursor: [({ cursor }) => show(describePoint(latest.current, cursor.idx))] },
  }
}

function toColors(latest: Latest, color: (name: string) => string): Pick<uPlot.Series, 'stroke' | 'fill'> {
  return { stroke: () => color(latest.current.stroke), fill: () => color(latest.current.fill) }
}

const bars: uPlot.Series = {
  width: 0,
  points: { show: false },
  paths: (...input) => uPlot.paths.bars?.({ align: 1, size: [0.75, 24, 1] })(...input) ?? null,
}

function formatTimes(_plot: uPlot, splits: number[]): string[] {
  return splits.map((at) => formatMinute(at))
}

function formatCounts(_plot: uPlot, splits: number[]): string[] {
  return splits.map(formatCompact)
}

/** There is no half of an event. */
const wholeSteps = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat()

function describePoint({ times, values, formatValue }: ChartProps, index: number | null | undefined): string {
  const at = times[index ?? -1]
  const value = values[index ?? -1]
  if (at === undefined || value == null) return ''
  return `${formatMinute(at)} · ${formatValue(value)}`
}
