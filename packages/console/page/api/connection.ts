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
