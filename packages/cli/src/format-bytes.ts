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
