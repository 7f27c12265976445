import { formatCount } from '../../format.ts'
import { colorAt, fraction, legendCounts, type ScaleKind } from '../../heat/scale.ts'
import { formatUnits } from './format-units.ts'
import { useTheme } from './use-theme.ts'

export interface LegendProps {
  /** Of the densest cell. */
  max: number
  /** The width of a cell. */
  cell: number
  scale: ScaleKind
  onScale(scale: ScaleKind): void
}

/** The counts that the colours stand for. */
export function Legend({ max, cell, scale, onScale }: LegendProps) {
  const { isDark } = useTheme()
  const stops = Array.from({ length: 11 }, (_, i) => `rgb(${colorAt(i / 10, isDark).join(' ')})`)
  return (
    <div class="heat-legend">
      <p>
        Events in a cell of {formatUnits(cell)} × {formatUnits(cell)} units
      </p>
      <div class="heat-scale" style={{ background: `linear-gradient(to right, ${stops.join(', ')})` }} />
      <ol class="heat-ticks" aria-label="Counts of the colours">
        {(max === 0 ? [] : legendCounts(max, scale)).map((count) => (
          <li key={count} style={{ left: `${100 * (max === 1 ? 1 : fraction(count, max, scale))}%` }}>
            {formatCount(count)}
          </li>
        ))}
      </ol>
      <fieldset class="heat-kinds" aria-label="Scale">
        {(['log', 'linear'] as const).map((kind) => (
          <button key={kind} type="button" aria-pressed={kind === scale} onClick={() => onScale(kind)}>
            {kind === 'log' ? 'Logarithmic' : 'Linear'}
          </button>
        ))}
      </fieldset>
    </div>
  )
}
