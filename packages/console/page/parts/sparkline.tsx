import './sparkline.css'

const width = 120
const height = 24

interface SparklineProps {
  /** Description for screen readers. */
  label: string
  /** Oldest first. */
  counts: readonly number[]
  /** The value at the top. Default: the largest count. */
  max?: number
}

/** A line of counts over time, without axes. */
export function Sparkline({ label, counts, max = Math.max(1, ...counts) }: SparklineProps) {
  const step = width / Math.max(1, counts.length)
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(1, (height * count) / max))
  const bars = counts.map((count, index) => {
    const y = height - heightOf(count)
    return `M${(index * step).toFixed(2)},${height}V${y.toFixed(1)}h${step.toFixed(2)}V${height}z`
  })
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={bars.filter((_, index) => counts[index] !== 0).join('')} />
    </svg>
  )
}
