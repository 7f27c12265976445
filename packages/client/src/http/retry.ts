import { setTimeout as wait } from 'node:timers/promises'
import { IngestError } from '@ingest/core'

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

export interface RetryLimits {
  /** How many times a request is sent again. */
  retries: number
  /** How long one try may take, in milliseconds. */
  tryTimeoutMs: number
  /** How long all tries and the pauses between them may take, in milliseconds. */
  timeoutMs: number
  /** Told why the last try failed, when there is to be another one in `pauseMs`. */
  onRetry?: ((error: IngestError, pauseMs: number) => void) | undefined
}

/** Time and chance. */
export interface RetryEffects {
  now?: () => number
  random?: () => number
  /** Rejects when the signal is aborted. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** What one call may ask for. */
export interface RetryOptions {
  signal?: AbortSignal
  /** In place of those of the retrier. */
  retries?: number
}

/** Tries again what may be tried again. */
export interface Retrier {
  /** What `attempt` resolves to, given how long it may take. */
  retry<T>(attempt: (timeoutMs: number) => Promise<T>, options?: RetryOptions): Promise<T>
  /**
   * What the attempts yield, one after another; each goes on where the one before broke. Something that arrives is
   * success: limits begin again.
   */
  retryEach<T>(attempt: (timeoutMs: number) => AsyncIterable<T>, options?: RetryOptions): AsyncGenerator<T, void>
  /** Lets tries that have begun end, begins no other, and resolves when none is left. */
  close(): Promise<void>
}

/** By the status of the response alone; without one, if the connection failed or the response took too long. */
function isWorthRetry(error: unknown): error is IngestError {
  if (!(error instanceof IngestError)) return false
  const { status, code, retryable } = error
  return status === undefined ? code === 'connection-failed' || code === 'request-timeout' : retryable
}

/** The retrier of one client. */
export function createRetrier(limits: RetryLimits, effects: RetryEffects = {}): Retrier {
  const { now = () => performance.now(), random = Math.random, sleep = sleepUntil } = effects
  const closing = new AbortController()
  let running = 0
  let onIdle = () => {}

  /** A row of tries of which none has succeeded yet. */
  function startRow({ signal, retries = limits.retries }: RetryOptions = {}) {
    const deadline = now() + limits.timeoutMs
    const backoff = createBackoff({ random })
    let triesLeft = retries
    return {
      tryTimeoutMs: () => Math.min(limits.tryTimeoutMs, Math.max(1, deadline - now())),
      /** Resolves when it is time for the next try; throws the error when there is to be none. */
      async pause(error: unknown): Promise<void> {
        if (!isWorthRetry(error) || triesLeft-- === 0 || closing.signal.aborted) throw error
        const ms = backoff.next((error.retryAfterSeconds ?? 0) * 1000)
        if (now() + ms >= deadline) throw error
        limits.onRetry?.(error, ms)
        await sleep(ms, signal ? AbortSignal.any([signal, closing.signal]) : closing.signal).catch(() => {
          signal?.throwIfAborted()
          throw error
        })
      },
    }
  }

  function begin(): void {
    if (closing.signal.aborted) throw new IngestError('store-closed', 'This client is closed.')
    running++
  }

  function end(): void {
    if (--running === 0) onIdle()
  }

  return {
    async retry(attempt, options) {
      begin()
      try {
        const row = startRow(options)
        for (;;) {
          try {
            return await attempt(row.tryTimeoutMs())
          } catch (error) {
            await row.pause(error)
          }
        }
      } finally {
        end()
      }
    },

    async *retryEach(attempt, options) {
      let row = startRow(options)
      for (;;) {
        if (closing.signal.aborted) throw new IngestError('store-closed', 'This client is closed.')
        try {
          for await (const item of attempt(limits.tryTimeoutMs)) {
            yield item
            row = startRow(options)
          }
          return
        } catch (error) {
          await row.pause(error)
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

function sleepUntil(ms: number, signal: AbortSignal): Promise<unknown> {
  return wait(ms, undefined, { signal })
}
