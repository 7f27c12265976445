/** The longest pause before the first retry, in milliseconds; it doubles with each one. */
export const backoffMsBase = 1000
/** Where doubling ends. */
export const backoffMsMax = 60_000

export interface BackoffOptions {
  /** From 0 up to, not including, 1. */
  random?: () => number
}

/** How long to wait before each of a row of retries. */
export interface Backoff {
  /**
   * The pause before the next retry, in milliseconds: at random between `floorMs`, which the server asked for, and
   * that much more.
   */
  next(floorMs?: number): number
  /** Something went well: the next pause is a first one again. */
  reset(): void
}

/**
 * Exponential backoff with full jitter, 1 s doubling to 60 s: whoever failed together does not come back together
 * (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). For the same reason what the server asks
 * for is where the random part begins, and not merely the least value of it.
 */
export function createBackoff({ random = Math.random }: BackoffOptions = {}): Backoff {
  let rangeMs = backoffMsBase
  return {
    next(floorMs = 0) {
      const pauseMs = floorMs + random() * rangeMs
      rangeMs = Math.min(2 * rangeMs, backoffMsMax)
      return pauseMs
    },
    reset() {
      rangeMs = backoffMsBase
    },
  }
}
