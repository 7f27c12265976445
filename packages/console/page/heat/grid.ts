import { niceStep } from './scale.ts'
import type { Box } from './viewport.ts'

/** Square cells, aligned to multiples of their size. */
export interface Grid {
  left: number
  top: number
  /** The width and height of a cell, in units of the map. */
  cell: number
  columns: number
  rows: number
}

/** The number of events in each cell, row by row. */
export interface Counts extends Grid {
  counts: Uint32Array<ArrayBuffer>
  /** The number of events in the densest cell; 0 without events. */
  max: number
  /** The number of events in all cells. */
  inside: number
}

/** A cell by its bounds. */
export interface Cell extends Box {
  count: number
}

const cellPixels = 5
const cellsMax = 100_000

/**
 * Cells for the visible box. Their size is a round number of units; they are at least 5 pixels wide, and at most
 * 100,000.
 */
export function gridOf(box: Box, unitsPerPixel: number): Grid {
  let cell = niceStep(cellPixels * unitsPerPixel)
  for (;;) {
    const left = Math.floor(box.left / cell) * cell
    const top = Math.floor(box.top / cell) * cell
    const columns = Math.max(1, Math.ceil((box.right - left) / cell))
    const rows = Math.max(1, Math.ceil((box.bottom - top) / cell))
    if (columns * rows <= cellsMax) return { left, top, cell, columns, rows }
    cell = niceStep(cell * 1.1)
  }
}

/**
 * Counts the points for whose index `isShown` is true. A point on a border belongs to the cell to its right or below.
 */
export function countCells(
  grid: Grid,
  points: { xs: Float64Array; ys: Float64Array; length: number },
  isShown: (index: number) => boolean,
): Counts {
  const { left, top, cell, columns, rows } = grid
  const { xs, ys, length } = points
  const counts = new Uint32Array(columns * rows)
  let max = 0
  let inside = 0
  for (let i = 0; i < length; i++) {
    const column = Math.floor(((xs[i] as number) - left) / cell)
    const row = Math.floor(((ys[i] as number) - top) / cell)
    // false for NaN too
    if (!(column >= 0 && column < columns && row >= 0 && row < rows) || !isShown(i)) continue
    const at = row * columns + column
    const count = (counts[at] as number) + 1
    counts[at] = count
    if (count > max) max = count
    inside++
  }
  return { ...grid, counts, max, inside }
}

/** The cell at a point of the map; undefined outside of the grid. */
export function cellAt(grid: Counts, x: number, y: number): Cell | undefined {
  const column = Math.floor((x - grid.left) / grid.cell)
  const row = Math.floor((y - grid.top) / grid.cell)
  if (!(column >= 0 && column < grid.columns && row >= 0 && row < grid.rows)) return undefined
  return cellOf(grid, row * grid.columns + column)
}

/** The cells with the most events, the densest first. */
export function densestCells(grid: Counts, limit: number): Cell[] {
  const { counts } = grid
  const found: number[] = []
  for (let i = 0; i < counts.length; i++) {
    const count = counts[i] as number
    if (count === 0 || (found.length === limit && count <= (counts[found.at(-1) as number] as number))) continue
    const at = found.findIndex((each) => (counts[each] as number) < count)
    found.splice(at === -1 ? found.length : at, 0, i)
    if (found.length > limit) found.pop()
  }
  return found.map((index) => cellOf(grid, index))
}

/** The cell of an index of `counts`. */
export function cellOf({ left, top, cell, columns, counts }: Counts, index: number): Cell {
  // computed from whole numbers of cells, to avoid 0.1 + 1e-17
  const column = Math.round(left / cell) + (index % columns)
  const row = Math.round(top / cell) + Math.floor(index / columns)
  return {
    left: multiple(column, cell),
    top: multiple(row, cell),
    right: multiple(column + 1, cell),
    bottom: multiple(row + 1, cell),
    count: counts[index] as number,
  }
}

/** `number * step` without binary rounding noise: 3 × 0.1 is 0.3. */
function multiple(number: number, step: number): number {
  return Number((number * step).toPrecision(12))
}
