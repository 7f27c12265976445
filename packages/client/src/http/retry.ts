import { setMaxListeners } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { IngestError } from '@ingest/core'

/** Maximum pause before the first retry, in milliseconds; it doubles with each retry. */
export const backoffMsBase = 1000
/** Upper bound of the doubling, in milliseconds. */
export const backoffMsMax = 60_000

/** Options of `createBackoff`. */
export interface BackoffOptions {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). Default: `Math.random`. */
  random?: () => number
}

/** The pauses between retries. */
export interface Backoff {
  /**
   * The next pause, in milliseconds: `floorMs`, the pause requested by the server, plus a random part of the backoff.
   */
  next(floorMs?: number): number
  /** Restarts at the first pause, after a success. */
  reset(): void
}

/**
 * Exponential backoff with full jitter, 1 s doubling to 60 s, so that clients that failed together do not retry
 * together (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). For the same reason, the jitter
 * is added to `Retry-After`.
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

export interface RetryOptions {
  /** Maximum number of retries of a call after a 408, 429, 5xx, failed connection or timeout. Default: 4. */
  retries?: number | undefined
  /**
   * Timeout of one attempt, in milliseconds, from when it has a connection. For a stream: until its next complete event
   * or chunk of a map. Default: 30,000.
   */
  tryTimeoutMs?: number | undefined
  /** Timeout of a call with all its retries, in milliseconds. For a stream: between two items. Default: 120,000. */
  timeoutMs?: number | undefined
  /** Called before each retry, with the error of the last attempt. */
  onRetry?: ((error: IngestError, pauseMs: number) => void) | undefined
}

export interface RetryEffects {
  now?: () => number
  random?: () => number
  /** Rejects when the signal is aborted. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** Options that every method of a client takes. */
export interface CallOptions {
  /** Cancels the call, which rejects with the reason of the signal. */
  signal?: AbortSignal
  /** Overrides `retries` of the client; 0 means a single attempt. */
  retries?: number
}

/** Timeouts of one attempt, in milliseconds, without and with its wait for a connection. */
export interface AttemptTimes {
  timeoutMs: number
  totalMs: number
}

/** Retries the calls of one client. */
export interface Retry {
  /** Resolves with the result of the first successful attempt. Each attempt gets its timeouts. */
  run<T>(attempt: (times: AttemptTimes) => Promise<T>, options?: CallOptions): Promise<T>
  /**
   * Yields the items of all attempts; each attempt must continue where the previous one broke off. Every item counts as
   * a success, which resets retries and timeouts.
   */
  runStream<T>(attempt: (times: AttemptTimes) => AsyncIterable<T>, options?: CallOptions): AsyncGenerator<T, void>
  /** Starts no further attempt; resolves when the attempts in flight have ended. */
  close(): Promise<void>
}

/**
 * Whether to retry after an error. This depends only on the status of the response, or, without a response, on whether
 * the connection failed or timed out.
 */
function isRetryable(error: unknown): error is IngestError {
  if (!(error instanceof IngestError)) return false
  const { status, code, retryable } = error
  return status === undefined ? code === 'connection-failed' || code === 'request-timeout' : retryable
}

/** @throws {IngestError} `invalid-argument` for an option out of range */
export function createRetry(
  { retries = 4, tryTimeoutMs = 30_000, timeoutMs = 120_000, onRetry }: RetryOptions,
  effects: RetryEffects = {},
): Retry {
  checkLimits(retries, { tryTimeoutMs, timeoutMs })
  const limits = { retries, tryTimeoutMs, timeoutMs, onRetry }
  const closing = new AbortController()
  // each call that pauses adds a listener, and Node warns of a leak beyond 10
  setMaxListeners(0, closing.signal)
  const series = (options?: CallOptions) => startAttempts(limits, effects, closing.signal, options)
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
            return await attempt(attempts.times())
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
          for await (const item of attempt({ timeoutMs: tryTimeoutMs, totalMs: attempts.times().totalMs })) {
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

function checkLimits(retries: number, timeouts: Readonly<Record<string, number>>): void {
  if (!Number.isSafeInteger(retries) || retries < 0) {
    throw new IngestError('invalid-argument', 'retries must be an integer of at least 0.')
  }
  for (const [name, ms] of Object.entries(timeouts)) {
    if (Number.isSafeInteger(ms) && ms > 0 && ms < timerMsMax) continue
    const range = `from 1 to ${timerMsMax - 1}`
    throw new IngestError('invalid-argument', `${name} must be an integer of milliseconds, ${range}.`)
  }
}

/** The attempts of one call since its last success. */
function startAttempts(
  limits: RetryOptions & { retries: number; tryTimeoutMs: number; timeoutMs: number },
  { now = () => performance.now(), random = Math.random, sleep: sleepFor = sleep }: RetryEffects,
  closing: AbortSignal,
  { signal, retries = limits.retries }: CallOptions = {},
) {
  const deadline = now() + limits.timeoutMs
  const backoff = createBackoff({ random })
  let retriesLeft = retries
  return {
    times(): AttemptTimes {
      const totalMs = Math.max(1, deadline - now())
      return { timeoutMs: Math.min(limits.tryTimeoutMs, totalMs), totalMs }
    },

    /** Resolves when the next attempt is due; throws the error after the last attempt. */
    async pause(error: unknown): Promise<void> {
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

/** Maximum delay of a Node timer, in milliseconds; a longer one fires at once. */
export const timerMsMax = 2 ** 31 - 1

/** Rejects when the signal aborts. With `ref` false, it does not keep the process alive. */
export async function sleep(ms: number, signal: AbortSignal, ref = true): Promise<void> {
  for (let left = ms; left > 0; left -= timerMsMax) {
    await wait(Math.min(left, timerMsMax), undefined, { signal, ref })
  }
}
