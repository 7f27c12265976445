import { formatCount } from '../../format.ts'
import type { CountedEvents } from '../../heat/heat-events.ts'
import { colorAt, fraction, legendCounts } from '../../heat/scale.ts'
import { formatUnits } from './format-units.ts'
import { useTheme } from './use-theme.ts'

/** The largest count of a cell in any picture: all pictures have the same colours. */
export function maxOf(counts: readonly CountedEvents[]): number {
  return Math.max(0, ...counts.map(({ max }) => max))
}

/** The counts that the colours represent. */
export function Legend({ counts, noun }: { counts: readonly CountedEvents[]; noun: string }) {
  const { isDark } = useTheme()
  const [first] = counts
  if (!first) return null
  const max = maxOf(counts)
  const side = formatUnits(first.cell)
  const stops = Array.from({ length: 21 }, (_, i) => `rgb(${colorAt(i / 20, isDark).join(' ')})`)
  return (
    <div class="heat-legend">
      <p class="capitalized">
        {noun}s in a cell of {side} × {side} units
      </p>
      <div class="heat-scale" style={{ background: `linear-gradient(to right, ${stops.join(', ')})` }} />
      <ol class="heat-ticks" aria-label="Counts of the colours">
        {(max === 0 ? [] : legendCounts(max)).map((count) => (
          <li key={count} style={{ left: `${100 * fraction(count, max)}%` }}>
            {formatCount(count)}
          </li>
        ))}
      </ol>
    </div>
  )
}
