import { type Cell, cellOf, type Grid } from './grid.ts'
import type { CountedEvents } from './heat-events.ts'

/** How the shares of two samples differ by cell. */
export interface Difference extends Grid {
  /** The share of the first sample's events that a cell has, less that of the second. */
  values: Float64Array
  /** 1 where the difference exceeds two standard errors, so that chance alone rarely makes it. */
  isClear: Uint8Array
  /** The greatest clear difference, either way; 0 without one. */
  max: number
}

/** Of independent events: those of one player or one window are less so, which makes chance larger. */
const standardErrors = 2

/** Compares counts of one grid. Shares make samples and builds of any size comparable. */
export function compareCounts(a: CountedEvents, b: CountedEvents): Difference {
  const { left, top, cell, columns, rows } = a
  const values = new Float64Array(a.counts.length)
  const isClear = new Uint8Array(a.counts.length)
  const [ofA, ofB] = [Math.max(1, a.located), Math.max(1, b.located)]
  let max = 0
  for (let i = 0; i < values.length; i++) {
    const [inA, inB] = [a.counts[i] as number, b.counts[i] as number]
    if (inA + inB === 0) continue
    const value = inA / ofA - inB / ofB
    const both = (inA + inB) / (ofA + ofB)
    const error = Math.sqrt(both * (1 - both) * (1 / ofA + 1 / ofB))
    values[i] = value
    if (Math.abs(value) <= standardErrors * error) continue
    isClear[i] = 1
    max = Math.max(max, Math.abs(value))
  }
  return { left, top, cell, columns, rows, values, isClear, max }
}

/** A cell with the counts of both. */
export interface ComparedCell extends Cell {
  countOfB: number
  value: number
}

/** The cells with the greatest clear differences, either way, the greatest first. */
export function mostDifferentCells(a: CountedEvents, b: CountedEvents, limit: number): ComparedCell[] {
  const { values, isClear } = compareCounts(a, b)
  const clear = [...values.keys()].filter((i) => isClear[i] === 1)
  const sizeOf = (i: number) => Math.abs(values[i] as number)
  return clear
    .sort((i, j) => sizeOf(j) - sizeOf(i))
    .slice(0, limit)
    .map((i) => ({ ...cellOf(a, i), countOfB: b.counts[i] as number, value: values[i] as number }))
}
