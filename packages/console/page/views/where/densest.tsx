import type { ComponentChildren } from 'preact'
import { formatCount, formatCountOf } from '../../format.ts'
import { compareCounts, mostDifferentCells } from '../../heat/compare.ts'
import { type Cell, densestCells } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import { Value } from '../../parts/value.tsx'
import { visibleText } from '../../visible-text.ts'
import { formatBounds, formatPoints, formatShare, formatUnits } from './format-units.ts'
import type { Compared } from './legend.tsx'

const listed = 10

/** Describes the map in a sentence. */
export function describeCounts(counts: CountedEvents, { across, down }: Selection): string {
  const { selected, located, inside, counts: cells, max, cell } = counts
  const both = `${formatCount(located)} of ${formatCountOf(selected, 'event')} have both ${visibleText(across)} and ${visibleText(down)}.`
  if (located === 0) return both
  const filled = cells.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0)
  const where = inside === located ? 'All of them are' : `${formatCount(inside)} of them are`
  const sides = `${formatUnits(cell)} × ${formatUnits(cell)} units`
  return `${both} ${where} in view, in ${formatCountOf(filled, 'cell')} of ${sides}; the densest has ${formatCount(max)}.`
}

/** Describes the comparison of two builds in a sentence. */
export function describeDifference({ a, b, nameOfA, nameOfB }: Compared): string {
  const { isClear, max } = compareCounts(a, b)
  const clear = isClear.reduce((sum, each) => sum + each, 0)
  const sizes = `${formatCountOf(a.located, 'event')} of ${visibleText(nameOfA)} against ${formatCount(b.located)} of ${visibleText(nameOfB)}`
  if (clear === 0) return `${sizes}: no cell in view differs by more than chance explains.`
  return `${sizes}: ${formatCountOf(clear, 'cell')} in view differ by more than chance explains, by up to ${formatPoints(max)} percentage points.`
}

interface DensestProps {
  selection: Selection
  onCell(cell: Cell): void
}

/** The densest cells in view, as a table: a text alternative to the map. */
export function DensestCells({ counts, selection, onCell }: DensestProps & { counts: CountedEvents }) {
  const cells = densestCells(counts, listed)
  return (
    <CellTable
      {...{ cells, selection, onCell }}
      title="Densest cells in view"
      heads={['Events']}
      figures={({ count }) => [formatCount(count)]}
    />
  )
}

/** The cells in view with the largest differences between two builds. */
export function DifferentCells({ a, b, nameOfA, nameOfB, selection, onCell }: DensestProps & Compared) {
  const cells = mostDifferentCells(a, b, listed)
  return (
    <CellTable
      {...{ cells, selection, onCell }}
      title="Cells that differ most"
      heads={['Difference', nameOfA, nameOfB]}
      figures={({ value, count, countOfB }) => [
        formatPoints(value),
        formatShare(count, a.located),
        formatShare(countOfB, b.located),
      ]}
    />
  )
}

interface CellTableProps<Shown extends Cell> extends DensestProps {
  title: string
  cells: readonly Shown[]
  heads: readonly string[]
  figures(cell: Shown): readonly ComponentChildren[]
}

function CellTable<Shown extends Cell>(props: CellTableProps<Shown>) {
  const { title, cells, heads, figures, selection, onCell } = props
  if (cells.length === 0) return null
  function show(cell: Cell): void {
    onCell(cell)
    document.getElementById('map-frame')?.focus()
  }
  return (
    <section aria-labelledby="densest">
      <h2 id="densest">{title}</h2>
      <div class="scroll">
        <table class="densest">
          <thead>
            <tr>
              {[...heads, selection.across, selection.down].map((head) => (
                <th key={head} class="number">
                  <Value text={head} />
                </th>
              ))}
              <th>Map</th>
            </tr>
          </thead>
          <tbody>
            {cells.map((cell) => (
              <tr key={`${cell.left} ${cell.top}`}>
                {figures(cell).map((figure, i) => (
                  <td key={heads[i]} class="number">
                    {figure}
                  </td>
                ))}
                <td class="number">{formatBounds(cell.left, cell.right)}</td>
                <td class="number">{formatBounds(cell.top, cell.bottom)}</td>
                <td>
                  <button type="button" onClick={() => show(cell)}>
                    Show
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
