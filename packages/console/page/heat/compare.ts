import { type Cell, cellOf, type Grid } from './grid.ts'
import type { CountedEvents } from './heat-events.ts'

/** The differences between the shares of two samples, by cell. */
export interface Difference extends Grid {
  /** For each cell, its share of the first sample's events minus its share of the second's. */
  values: Float64Array
  /** 1 where the difference exceeds two standard errors, so that it is unlikely to be chance. */
  isClear: Uint8Array
  /** The largest clear difference in either direction; 0 without a clear difference. */
  max: number
}

/**
 * Assumes independent events. Events of one player or one window are correlated, which makes chance differences larger.
 */
const standardErrors = 2

/** Compares counts in one grid. Shares make samples and builds of any size comparable. */
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

/** The cells with the largest clear differences in either direction, largest first. */
export function mostDifferentCells(a: CountedEvents, b: CountedEvents, limit: number): ComparedCell[] {
  const { values, isClear } = compareCounts(a, b)
  const clear = [...values.keys()].filter((i) => isClear[i] === 1)
  const sizeOf = (i: number) => Math.abs(values[i] as number)
  return clear
    .sort((i, j) => sizeOf(j) - sizeOf(i))
    .slice(0, limit)
    .map((i) => ({ ...cellOf(a, i), countOfB: b.counts[i] as number, value: values[i] as number }))
}
