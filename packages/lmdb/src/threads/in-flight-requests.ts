import { IngestError, type StoreCommit } from '@ingest/core'
import { withdrawQueuedRequests } from './commit-state.ts'
import { createCommitWatchdog, type WatchdogOptions } from './commit-watchdog.ts'
import { deserializeError } from './error-transfer.ts'
import type { Handled, Outcome } from './request-loop.ts'

/** With more bytes in flight the disk cannot keep up, and further requests are rejected. */
const inFlightBytesMax = 64 * 2 ** 20

interface InFlightRequest {
  bytes: number
  resolve: (value: never) => void
  reject: (error: unknown) => void
  /** Called with the commit of the request before it resolves. */
  onCommit?: ((commit: StoreCommit) => void) | undefined
}

/** The requests that a thread has not settled yet, and why it accepts no more. */
export interface InFlightRequests {
  /** @throws {IngestError} `overloaded` when `bytes` more would exceed the limit of bytes in flight */
  checkLimit(bytes: number): void
  /** Returns the id of the request, which is free again once it is settled. */
  add(request: InFlightRequest): number
  settle(handled: Handled): void
  /** Rejects a request that did not reach the thread. */
  reject(id: number, error: unknown): void
  /** The thread is not stuck: what it waits for is not a commit. */
  keepAlive(): void
  /**
   * Rejects all requests permanently: those that are in no transaction are never committed. Later calls have no effect.
   */
  fail(error: IngestError): void
  failure(): IngestError | undefined
  /** `store-locked` while the thread has waited for the write lock for too long. */
  lockError(): IngestError | undefined
  size(): { requests: number; bytes: number }
  /** Resolves when all are settled, or rejected because of a failure or the write lock. */
  settled(): Promise<void>
}

export interface InFlightOptions extends WatchdogOptions {
  /** Called once, with the failure. */
  onFatal: (error: IngestError) => void
  /** Called when the first request is sent. */
  onBusy: () => void
  /** Called when none is left. */
  onIdle: () => void
}

export function createInFlightRequests(options: InFlightOptions): InFlightRequests {
  const { onFatal, state, timeoutMs, onBusy, onIdle } = options
  // by id. A Map whose entries come and go leaves dead tables in V8's old space, which keep later tables and their
  // requests alive until a full garbage collection
  const requests: (InFlightRequest | undefined)[] = []
  const freeIds: number[] = []
  let bytesInFlight = 0
  let failure: IngestError | undefined
  let onSettled = () => {}
  const watchdog = createCommitWatchdog(options, rejectLocked, () =>
    fail(new IngestError('store-failed', `A commit has not ended within ${timeoutMs} ms.`)),
  )

  function rejectLocked(error: IngestError): void {
    // they stay in flight, and count towards the limit, until the thread has settled them
    for (const request of requests) request?.reject(error)
    onSettled()
  }

  function fail(error: IngestError): void {
    if (failure) return
    failure = error
    withdrawQueuedRequests(state)
    for (const request of requests.splice(0)) request?.reject(error)
    freeIds.length = 0
    becomeIdle()
    try {
      onFatal(error)
    } catch (thrown) {
      // an error of the embedder must reach the embedder, but must not keep requests from being settled
      process.nextTick(() => {
        throw thrown
      })
    }
  }

  function becomeIdle(): void {
    bytesInFlight = 0
    watchdog.stop()
    onIdle()
    onSettled()
  }

  function take(id: number): InFlightRequest | undefined {
    const request = requests[id]
    if (!request) return undefined
    requests[id] = undefined
    freeIds.push(id)
    bytesInFlight -= request.bytes
    return request
  }

  function count(): number {
    return requests.length - freeIds.length
  }

  function settleOne(outcome: Outcome, commit: StoreCommit | undefined): void {
    const request = take(outcome.id)
    if (!request) return
    if ('value' in outcome) {
      if (commit) request.onCommit?.(commit)
      request.resolve(outcome.value as never)
    } else {
      const error = deserializeError(outcome.error)
      request.reject(error)
      if (error.code === 'store-failed') fail(error)
    }
  }

  return {
    checkLimit(bytes) {
      if (bytesInFlight === 0 || bytesInFlight + bytes <= inFlightBytesMax) return
      throw new IngestError('overloaded', `${bytesInFlight} bytes are waiting to be written: try again later.`, {
        limit: inFlightBytesMax,
        actual: bytesInFlight + bytes,
        retryAfterSeconds: 1,
      })
    },

    add(request) {
      if (count() === 0) {
        onBusy()
        watchdog.start()
      }
      const id = freeIds.pop() ?? requests.length
      requests[id] = request
      bytesInFlight += request.bytes
      return id
    },

    reject(id, error) {
      take(id)?.reject(error)
      if (count() === 0) becomeIdle()
    },

    settle({ outcomes, commit }) {
      // after a failure, the thread may still settle requests
      if (count() === 0) return
      watchdog.start()
      for (const outcome of outcomes) settleOne(outcome, commit)
      if (count() === 0) becomeIdle()
    },

    keepAlive() {
      if (count() > 0) watchdog.start()
    },

    fail,
    failure: () => failure,
    lockError: watchdog.lockError,
    size: () => ({ requests: count(), bytes: bytesInFlight }),

    async settled() {
      if (count() === 0 || failure || watchdog.lockError()) return
      await new Promise<void>((resolve) => {
        onSettled = resolve
      })
    },
  }
}
