/** Whether the server responds, according to the last request. */
export interface Connection {
  /** When it stopped responding, in milliseconds since 1970; undefined while it responds. */
  readonly lostAt: number | undefined
  restored(): void
  lost(): void
  /** Ends the pauses of all polls. */
  retryNow(): void
  /**
   * Calls the listener when `lostAt` changes, and with `isRetry` on `retryNow`. Returns a function that unsubscribes
   * it.
   */
  subscribe(listener: (isRetry: boolean) => void): () => void
}

export function createConnection(now: () => number = Date.now): Connection {
  const listeners = new Set<(isRetry: boolean) => void>()
  let lostAt: number | undefined
  function set(at: number | undefined): void {
    if ((lostAt === undefined) === (at === undefined)) return
    lostAt = at
    for (const listener of listeners) listener(false)
  }
  return {
    get lostAt() {
      return lostAt
    },
    lost: () => set(now()),
    restored: () => set(undefined),
    retryNow() {
      for (const listener of listeners) listener(true)
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

const firstMs = 1_000
/** After the server returns, the page recovers within this time. */
const longestMs = 5_000

/** The pause before attempt `attempt`, from 1: random up to a doubling bound, at least `retryAfterMs`. */
export function backoffMs(attempt: number, retryAfterMs = 0, random: () => number = Math.random): number {
  const bound = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 10))
  return Math.max(retryAfterMs, bound / 2 + (random() * bound) / 2)
}
