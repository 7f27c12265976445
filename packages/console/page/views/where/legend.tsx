import { formatCount } from '../../format.ts'
import { compareCounts } from '../../heat/compare.ts'
import type { CountedEvents } from '../../heat/heat-events.ts'
import { colorAt, divergingColorAt, fraction, legendCounts, type ScaleKind, signedFraction } from '../../heat/scale.ts'
import { Value } from '../../parts/value.tsx'
import { formatPoints, formatUnits } from './format-units.ts'
import { useTheme } from './use-theme.ts'

/** The counts that the colours represent. */
export function Legend({ counts: { max, cell }, scale }: { counts: CountedEvents; scale: ScaleKind }) {
  const { isDark } = useTheme()
  return (
    <div class="heat-legend">
      <p>
        Events in a cell of {formatUnits(cell)} × {formatUnits(cell)} units
      </p>
      <div class="heat-scale" style={{ background: gradient((at) => colorAt(at, isDark)) }} />
      <ol class="heat-ticks" aria-label="Counts of the colours">
        {(max === 0 ? [] : legendCounts(max, scale)).map((count) => (
          <li key={count} style={{ left: `${100 * (max === 1 ? 1 : fraction(count, max, scale))}%` }}>
            {formatCount(count)}
          </li>
        ))}
      </ol>
    </div>
  )
}

export interface Compared {
  a: CountedEvents
  b: CountedEvents
  nameOfA: string
  nameOfB: string
}

/** The differences that the colours represent. */
export function DifferenceLegend({ a, b, nameOfA, nameOfB, scale }: Compared & { scale: ScaleKind }) {
  const { isDark } = useTheme()
  const { max, cell } = compareCounts(a, b)
  const ticks =
    max === 0 ? [0] : scale === 'log' ? [-max, -max / 10, 0, max / 10, max] : [-max, -max / 2, 0, max / 2, max]
  return (
    <div class="heat-legend">
      <p>
        The share of a build's events that a cell of {formatUnits(cell)} × {formatUnits(cell)} units has, in percentage
        points
      </p>
      <div class="heat-scale" style={{ background: gradient((at) => divergingColorAt(2 * at - 1, isDark)) }} />
      <ol class="heat-ticks" aria-label="Differences of the colours">
        {ticks.map((value) => (
          <li key={value} style={{ left: `${50 + 50 * signedFraction(value, max, scale)}%` }}>
            {formatPoints(value)}
          </li>
        ))}
      </ol>
      <p>
        Orange: more in <Value text={nameOfA} />. Blue: more in <Value text={nameOfB} />. Grey: no more than chance
        explains (two standard errors).
      </p>
    </div>
  )
}

function gradient(colorOf: (at: number) => readonly number[]): string {
  const stops = Array.from({ length: 21 }, (_, i) => `rgb(${colorOf(i / 20).join(' ')})`)
  return `linear-gradient(to right, ${stops.join(', ')})`
}

export function ScaleChoice({ scale, onScale }: { scale: ScaleKind; onScale(scale: ScaleKind): void }) {
  return (
    <fieldset class="heat-kinds" aria-label="Scale">
      {(['log', 'linear'] as const).map((kind) => (
        <button key={kind} type="button" aria-pressed={kind === scale} onClick={() => onScale(kind)}>
          {kind === 'log' ? 'Logarithmic' : 'Linear'}
        </button>
      ))}
    </fieldset>
  )
}
