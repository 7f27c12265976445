/** Whether the server responds, as the last request found. */
export interface Connection {
  /** When it stopped responding, in milliseconds since 1970; undefined while it responds. */
  readonly lostAt: number | undefined
  restored(): void
  lost(): void
  /** Ends the pauses of all polls. */
  retryNow(): void
  /** Calls the listener when `lostAt` changes, and with `isRetry` for `retryNow`. Returns a function that ends it. */
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
/** The page is back within this time of the server's return. */
const longestMs = 5_000
/** Timers end at once after more than 24 days, and a page that waits for days looks broken. */
const retryAfterMaxMs = 3_600_000

/** The pause before attempt `attempt`, from 1: random up to a bound that doubles, and at least `retryAfterMs`, up to an hour. */
export function backoffMs(attempt: number, retryAfterMs = 0, random: () => number = Math.random): number {
  const bound = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 10))
  return Math.max(Math.min(retryAfterMs, retryAfterMaxMs), bound / 2 + (random() * bound) / 2)
}
