/**
 * Text in which nothing moves the cursor, changes its colour, or turns the direction of writing: such characters are
 * written as JSON writes them, so that inside a string of JSON they mean the same.
 */
export function escapeControlCharacters(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, (character) =>
    // each half of what is beyond U+FFFF by itself
    Array.from({ length: character.length }, (_, i) => {
      return `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`
    }).join(''),
  )
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** `55.4 MB`: a number of bytes for people, by powers of 1,000. */
export function formatBytes(bytes: number): string {
  let amount = bytes
  let unit = 0
  // what would be rounded to 1,000 belongs to the next unit
  while (amount >= 999.95 && unit < units.length - 1) {
    amount /= 1000
    unit++
  }
  return `${unit === 0 ? amount : amount.toFixed(1)} ${units[unit]}`
}

/** `1 event`, `2 events`: a number of things for people. */
export function formatCount(count: number, thing: string): string {
  return `${count} ${count === 1 ? thing : `${thing}s`}`
}

/** Lines of cells as columns of a width, for people. The columns in `numbers` end where the widest of their cells does. */
export function formatTable(table: readonly (readonly string[])[], numbers: readonly number[] = []): string[] {
  const lines = table.map((line) => line.map(escapeControlCharacters))
  const widths = lines.reduce<number[]>((max, line) => line.map((cell, i) => Math.max(max[i] ?? 0, cell.length)), [])
  return lines.map((line) =>
    line
      .map((cell, i) => (numbers.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}

/** A time in milliseconds since 1970 as RFC 3339, as `--json` and tables have it; null for none. */
export function toIsoTime(at: number): string
export function toIsoTime(at: number | null | undefined): string | null
export function toIsoTime(at: number | null | undefined): string | null {
  return at === null || at === undefined ? null : new Date(at).toISOString()
}
