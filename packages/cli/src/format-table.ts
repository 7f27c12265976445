import { visible } from './visible.ts'

/** Lines of cells as columns of a width, for people. The columns in `numbers` end where the widest of their cells does. */
export function formatTable(table: readonly (readonly string[])[], numbers: readonly number[] = []): string[] {
  const lines = table.map((line) => line.map(visible))
  const widths = lines.reduce<number[]>((max, line) => line.map((cell, i) => Math.max(max[i] ?? 0, cell.length)), [])
  return lines.map((line) =>
    line
      .map((cell, i) => (numbers.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}
