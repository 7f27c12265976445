import { formatCount, formatCountOf } from '../../format.ts'
import { type Cell, densestCells } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import { Value } from '../../parts/value.tsx'
import { visibleText } from '../../visible-text.ts'
import { formatBounds, formatUnits } from './format-units.ts'

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

/** The ten densest cells in view: the map for those who do not see it. */
export function DensestCells({
  counts,
  selection: { across, down },
  onCell,
}: {
  counts: CountedEvents
  selection: Selection
  onCell(cell: Cell): void
}) {
  const cells = densestCells(counts, 10)
  if (cells.length === 0) return null
  function show(cell: Cell): void {
    onCell(cell)
    document.getElementById('heat')?.focus()
  }
  return (
    <section aria-labelledby="densest">
      <h2 id="densest">Densest cells in view</h2>
      <div class="scroll">
        <table class="densest">
          <thead>
            <tr>
              <th class="number">Events</th>
              <th class="number">
                <Value text={across} />
              </th>
              <th class="number">
                <Value text={down} />
              </th>
              <th>Map</th>
            </tr>
          </thead>
          <tbody>
            {cells.map((cell) => (
              <tr key={`${cell.left} ${cell.top}`}>
                <td class="number">{formatCount(cell.count)}</td>
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
