/** The counts that a program prints at its end. */
export interface Counts {
  accepted: number
  duplicates: number
  rejected: number
  dropped: Readonly<Record<string, number>>
  unsent: number
}

/** The counts in a line; undefined if it has none. */
export function parseCounts(line: string): Counts | undefined {
  try {
    const { accepted, duplicates, rejected, dropped, unsent } = JSON.parse(line)
    const counts = { accepted, duplicates, rejected, dropped, unsent }
    const numbers = [accepted, duplicates, rejected, unsent, ...Object.values(dropped)]
    return numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0) ? counts : undefined
  } catch {
    return undefined
  }
}

/** How many events they count. */
export function sumOf({ accepted, duplicates, rejected, dropped, unsent }: Counts): number {
  return accepted + duplicates + rejected + unsent + totalOf(dropped)
}

/** The sum of all reasons. */
export function totalOf(dropped: Counts['dropped']): number {
  return Object.values(dropped).reduce((sum, count) => sum + count, 0)
}

/** The same counts with their reasons in order, without those of 0. */
export function sortCounts({ dropped, ...counts }: Counts): object {
  const reasons = Object.entries(dropped).filter(([, count]) => count > 0)
  return { ...counts, dropped: Object.fromEntries(reasons.sort(([a], [b]) => (a < b ? -1 : 1))) }
}
