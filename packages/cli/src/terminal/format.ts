/**
 * Escapes control, format and surrogate characters, which could move the cursor, or change colors or the writing
 * direction. The escapes are those of JSON, so JSON keeps its meaning.
 */
export function escapeControlCharacters(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, (character) =>
    // one escape per UTF-16 code unit
    Array.from({ length: character.length }, (_, i) => {
      return `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`
    }).join(''),
  )
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** `55.4 MB`: a size, by powers of 1,000. */
export function formatBytes(bytes: number): string {
  let amount = bytes
  let unit = 0
  // 999.95 would be rounded to 1000.0
  while (amount >= 999.95 && unit < units.length - 1) {
    amount /= 1000
    unit++
  }
  return `${unit === 0 ? amount : amount.toFixed(1)} ${units[unit]}`
}

/** A clock that returns the milliseconds since it was started. */
export function startTimer(): () => number {
  const startedAt = performance.now()
  return () => Math.round(performance.now() - startedAt)
}

/** `1.25 s`. */
export function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`
}

/** `12,345.67`. */
export function formatNumber(number: number): string {
  return number.toLocaleString('en-US', { maximumFractionDigits: 2 })
}

/** `1 event`, `2 events`. */
export function formatCount(count: number, thing: string): string {
  return `${count} ${count === 1 ? thing : `${thing}s`}`
}

/** Aligns rows of cells in columns; the columns in `numbers` are aligned to the right. */
export function formatTable(table: readonly (readonly string[])[], numbers: readonly number[] = []): string[] {
  const rows = table.map((row) => row.map(escapeControlCharacters))
  const widths = rows.reduce<number[]>((max, row) => row.map((cell, i) => Math.max(max[i] ?? 0, cell.length)), [])
  return rows.map((row) =>
    row
      .map((cell, i) => (numbers.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}

/** Formats a time in milliseconds since 1970 as RFC 3339 in UTC; null stays null. */
export function toIsoTime(at: number): string
export function toIsoTime(at: number | null | undefined): string | null
export function toIsoTime(at: number | null | undefined): string | null {
  return at === null || at === undefined ? null : new Date(at).toISOString()
}
