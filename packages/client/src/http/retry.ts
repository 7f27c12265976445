import { setTimeout as wait } from 'node:timers/promises'
import { IngestError } from '@ingest/core'

/** The longest pause before the first retry, in milliseconds; it doubles with each retry. */
export const backoffMsBase = 1000
/** The bound of the doubling. */
export const backoffMsMax = 60_000

export interface BackoffOptions {
  /** From 0 up to, not including, 1. Default `Math.random`. */
  random?: () => number
}

/** The pauses between retries. */
export interface Backoff {
  /** The next pause, in milliseconds: `floorMs`, which the server asked for, plus a random share of the backoff. */
  next(floorMs?: number): number
  /** Starts at the first pause again, after a success. */
  reset(): void
}

/**
 * Exponential backoff with full jitter, 1 s doubling to 60 s, so that clients that failed together do not retry together
 * (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). For the same reason the jitter is added to
 * `Retry-After`.
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

export interface RetryLimits {
  /** How often a request is sent again. */
  retries: number
  /** How long one attempt may take, in milliseconds. */
  tryTimeoutMs: number
  /** How long all attempts and the pauses between them may take, in milliseconds. */
  timeoutMs: number
  /** Called before each pause, with the error of the last attempt. */
  onRetry?: ((error: IngestError, pauseMs: number) => void) | undefined
}

/** Clock and randomness. */
export interface RetryEffects {
  now?: () => number
  random?: () => number
  /** Rejects when the signal is aborted. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** Options of one call. */
export interface RetryOptions {
  signal?: AbortSignal
  /** In place of the limit of the client. */
  retries?: number
}

/** Retries the calls of one client. */
export interface Retry {
  /** Resolves with the first attempt that succeeds; each gets the time that it may take. */
  run<T>(attempt: (timeoutMs: number) => Promise<T>, options?: RetryOptions): Promise<T>
  /**
   * Yields the items of all attempts; each attempt continues where the one before broke. Every item is a success, after
   * which retries and time-out start from their full values.
   */
  runStream<T>(attempt: (timeoutMs: number) => AsyncIterable<T>, options?: RetryOptions): AsyncGenerator<T, void>
  /** Starts no further attempt, and resolves when those in flight have ended. */
  close(): Promise<void>
}

/** By the status of the response alone; without a response, for a failed connection and a time-out. */
function isRetryable(error: unknown): error is IngestError {
  if (!(error instanceof IngestError)) return false
  const { status, code, retryable } = error
  return status === undefined ? code === 'connection-failed' || code === 'request-timeout' : retryable
}

export function createRetry(limits: RetryLimits, effects: RetryEffects = {}): Retry {
  const closing = new AbortController()
  const series = (options?: RetryOptions) => startAttempts(limits, effects, closing.signal, options)
  let running = 0
  let onIdle = () => {}

  function checkOpen(): void {
    if (closing.signal.aborted) throw new IngestError('store-closed', 'This client is closed.')
  }

  return {
    async run(attempt, options) {
      checkOpen()
      running++
      try {
        const attempts = series(options)
        for (;;) {
          try {
            return await attempt(attempts.timeoutMs())
          } catch (error) {
            await attempts.pause(error)
          }
        }
      } finally {
        if (--running === 0) onIdle()
      }
    },

    async *runStream(attempt, options) {
      let attempts = series(options)
      for (;;) {
        checkOpen()
        try {
          for await (const item of attempt(limits.tryTimeoutMs)) {
            yield item
            attempts = series(options)
          }
          return
        } catch (error) {
          await attempts.pause(error)
        }
      }
    },

    close() {
      closing.abort()
      return new Promise((resolve) => {
        onIdle = resolve
        if (running === 0) resolve()
      })
    },
  }
}

/** The attempts of one call since its last success. */
interface Attempts {
  timeoutMs(): number
  /** Resolves when the next attempt is due; throws the error when there is none. */
  pause(error: unknown): Promise<void>
}

function startAttempts(
  limits: RetryLimits,
  { now = () => performance.now(), random = Math.random, sleep: sleepFor = sleep }: RetryEffects,
  closing: AbortSignal,
  { signal, retries = limits.retries }: RetryOptions = {},
): Attempts {
  const deadline = now() + limits.timeoutMs
  const backoff = createBackoff({ random })
  let retriesLeft = retries
  return {
    timeoutMs: () => Math.min(limits.tryTimeoutMs, Math.max(1, deadline - now())),

    async pause(error) {
      if (!isRetryable(error) || retriesLeft-- === 0 || closing.aborted) throw error
      const ms = backoff.next((error.retryAfterSeconds ?? 0) * 1000)
      if (now() + ms >= deadline) throw error
      limits.onRetry?.(error, ms)
      await sleepFor(ms, signal ? AbortSignal.any([signal, closing]) : closing).catch(() => {
        signal?.throwIfAborted()
        throw error
      })
    },
  }
}

/** The longest delay of a Node timer; a longer one fires at once. */
export const timerMsMax = 2 ** 31 - 1

/** Rejects when the signal is aborted; without `ref` it does not keep the process alive. */
export async function sleep(ms: number, signal: AbortSignal, ref = true): Promise<void> {
  for (let left = ms; left > 0; left -= timerMsMax) {
    await wait(Math.min(left, timerMsMax), undefined, { signal, ref })
  }
}
