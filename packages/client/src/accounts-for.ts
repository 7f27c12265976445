import type { BatchResult } from '@ingest/core'

/** Whether an answer says what became of each event of a batch of so many. */
export function accountsFor({ accepted, duplicates, rejected }: BatchResult, count: number): boolean {
  const places = new Set(rejected.map(({ index }) => index))
  return (
    accepted + duplicates + places.size === count &&
    places.size === rejected.length &&
    rejected.every(
      ({ index, issues }) => Number.isInteger(index) && index >= 0 && index < count && Array.isArray(issues),
    )
  )
}
