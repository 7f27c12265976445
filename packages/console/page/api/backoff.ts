const firstMs = 1_000
const longestMs = 30_000
/** Timers end at once after more than 24 days, and a page that waits for days looks broken. */
const retryAfterMaxMs = 3_600_000

/** The pause before attempt `attempt`, from 1: random up to a bound that doubles, and at least `retryAfterMs`, up to an hour. */
export function backoffMs(attempt: number, retryAfterMs = 0, random: () => number = Math.random): number {
  const bound = Math.min(longestMs, firstMs * 2 ** Math.min(attempt - 1, 10))
  return Math.max(Math.min(retryAfterMs, retryAfterMaxMs), bound / 2 + (random() * bound) / 2)
}
