import { formatCount, formatCountOf, formatShare } from '../../format.ts'
import { type Cell, cellAt, densestCells } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { Box } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import { visibleText } from '../../visible-text.ts'
import { formatBounds, formatUnits } from './format-units.ts'

const listed = 10

interface Described {
  counts: CountedEvents | undefined
  selection: Selection
  /** The name of its build, if there are two pictures. */
  name: string | undefined
  /** `event` or `sampled event`. */
  noun: string
}

/** Describes one picture in sentences. */
export function describePicture({ counts, selection: { across, down }, name, noun }: Described): string {
  if (!counts) return 'Counting events.'
  const { selected, located, shown, inside, counts: cells, max, cell } = counts
  const of = name === undefined ? '' : `${visibleText(name)}: `
  const both = `${of}${formatCount(located)} of ${formatCountOf(selected, noun)} have both ${visibleText(across)} and ${visibleText(down)}.`
  if (located === 0) return both
  const sample =
    shown === located ? '' : ` A sample of ${formatCountOf(shown, 'event')} is shown: ${formatShare(shown, located)}.`
  const filled = cells.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0)
  const where = inside === shown ? 'All of them are' : `${formatCount(inside)} of them are`
  const sides = `${formatUnits(cell)} × ${formatUnits(cell)} units`
  return `${both}${sample} ${where} in view, in ${formatCountOf(filled, 'cell')} of ${sides}; the densest has ${formatCount(max)}.`
}

interface DensestProps {
  /** One picture, or two in the same cells. */
  counts: readonly CountedEvents[]
  /** The builds of the pictures. */
  names: readonly string[]
  selection: Selection
  /** `event` or `sampled event`. */
  noun: string
  onCell(cell: Cell): void
}

/** The densest cells in view, as a table: a text alternative to the map. */
export function DensestCells({ counts, names, selection, noun, onCell }: DensestProps) {
  const [first] = counts
  if (!first) return null
  const cells = densestCells({ ...first, counts: sumOf(counts) }, listed)
  if (cells.length === 0) return null
  function show(cell: Cell): void {
    onCell(cell)
    document.getElementById('map-frame')?.focus()
  }
  const heads = [...(counts.length > 1 ? names : ['Events']), selection.across, selection.down]
  return (
    <section aria-labelledby="densest">
      <h2 id="densest">Cells in view with the most {noun}s</h2>
      <div class="scroll">
        <table class="densest">
          <thead>
            <tr>
              {heads.map((head) => (
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
                {counts.map((each, i) => (
                  <td key={names[i]} class="number">
                    {formatCount(countIn(each, cell))}
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

function sumOf(counts: readonly CountedEvents[]): Uint32Array<ArrayBuffer> {
  const sum = new Uint32Array(counts[0]?.counts.length ?? 0)
  for (const { counts: each } of counts) for (const [i, count] of each.entries()) sum[i] = (sum[i] as number) + count
  return sum
}

/** The count of the cell at the middle of a box, which may be from a grid with other cells. */
export function countIn(counts: CountedEvents, { left, top, right, bottom }: Box): number {
  return cellAt(counts, (left + right) / 2, (top + bottom) / 2)?.count ?? 0
}
