/** The counts that a program prints when it ends. */
export interface Counts {
  accepted: number
  duplicates: number
  rejected: number
  dropped: Readonly<Record<string, number>>
  unsent: number
}

/** Parses the counts in a line; undefined if it has none. */
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

/** The number of counted events. */
export function sumOf({ accepted, duplicates, rejected, dropped, unsent }: Counts): number {
  return accepted + duplicates + rejected + unsent + totalOf(dropped)
}

/** The sum of all reasons. */
export function totalOf(dropped: Counts['dropped']): number {
  return Object.values(dropped).reduce((sum, count) => sum + count, 0)
}

/** The same counts, with the reasons sorted and without those that are 0. */
export function sortCounts({ dropped, ...counts }: Counts): object {
  const reasons = Object.entries(dropped).filter(([, count]) => count > 0)
  return { ...counts, dropped: Object.fromEntries(reasons.sort(([a], [b]) => (a < b ? -1 : 1))) }
}
