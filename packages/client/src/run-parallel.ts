import { setMaxListeners } from 'node:events'

/**
 * Does `work` on each item, in their order, at most `concurrency` at once. What the first failure throws is thrown once
 * everything that had begun is over; `work` is told by the signal to hurry.
 */
export async function runParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T, signal: AbortSignal) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const queue = items[Symbol.iterator]()
  const failing = new AbortController()
  const either = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal
  // each piece of work listens to it, and Node would take that for a leak
  setMaxListeners(0, either)
  const failures: unknown[] = []

  async function takeTurns(): Promise<void> {
    try {
      for (let next = queue.next(); !next.done; next = queue.next()) {
        either.throwIfAborted()
        await work(next.value, either)
      }
    } catch (error) {
      failures.push(error)
      failing.abort(error)
    }
  }

  await Promise.all(Array.from({ length: concurrency }, takeTurns))
  if (failures.length > 0) throw failures[0]
}
