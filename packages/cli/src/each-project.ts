/**
 * Calls `run` for each item, at most `inFlightMax` at once, and resolves with the results in the order of the items. After
 * an error it calls no more, and rejects with it once the calls in flight are settled.
 */
export async function mapInFlight<Item, Result>(
  items: readonly Item[],
  inFlightMax: number,
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const left = items.entries()
  let hasFailed = false

  async function work(): Promise<void> {
    // one iterator of all workers
    for (const [i, item] of left) {
      if (hasFailed) return
      try {
        results[i] = await run(item)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
  }

  await settleAll(Array.from({ length: inFlightMax }, work))
  return results
}

/** Rejects with the first error, but not before all are settled: their store may be closed then. */
export async function settleAll(promises: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(promises)
  await Promise.all(promises)
}
