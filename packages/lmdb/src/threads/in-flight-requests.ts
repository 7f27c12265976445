import { IngestError, type StoreCommit } from '@ingest/core'
import { type LockHolder, lockedError, lockTimeoutMs } from '../environment/write-lock.ts'
import { type CommitState, isWaitingForLock, withdrawQueuedRequests, withdrawRequests } from './commit-state.ts'
import { deserializeError } from './error-transfer.ts'
import type { Handled, Outcome } from './request-loop.ts'

/** With more bytes in flight the disk cannot keep up, and further requests are rejected. */
const inFlightBytesMax = 64 * 2 ** 20
/** How long the responses to an overdue commit may take to be read from the port. */
const readTimeoutMs = 20
/** When the thread is first checked after progress, and how often from then on. */
const firstCheckMs = 100
const checkMs = 1000
/** A check this late restarts the time-out: the process was stopped, or its main thread was busy. */
const lateMs = 1000

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

export interface InFlightOptions {
  /** Called once, with the failure. */
  onFatal: (error: IngestError) => void
  /** Shared with the thread. */
  state: CommitState
  /** The other process that holds the write lock, to name it. */
  lockHolder: () => LockHolder | undefined
  /**
   * The number of the last commit of any process: while it grows, each thread that waits for the lock gets its turn.
   */
  newestTransaction: () => number
  /**
   * A commit that takes longer, in milliseconds, has failed; the time that it waits for the write lock does not count.
   */
  timeoutMs: number
  /** Called when the first request is in flight, and when none is any more. */
  onBusy: () => void
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

/** Watches a thread that commits. After an I/O error an LMDB commit may never return. */
interface CommitWatchdog {
  /** Starts to watch, and starts over when the thread has made progress. */
  start(): void
  stop(): void
  /** `store-locked` while the thread has waited for the write lock for too long. */
  lockError(): IngestError | undefined
}

/**
 * @param onLocked called for each check that finds the thread waiting for the write lock: no request that was sent will
 *   be committed
 * @param onTimeout called once when a commit takes too long
 */
function createCommitWatchdog(
  { state, lockHolder, newestTransaction, timeoutMs }: InFlightOptions,
  onLocked: (error: IngestError) => void,
  onTimeout: () => void,
): CommitWatchdog {
  let timer: NodeJS.Timeout | undefined
  let progressAt = 0
  let dueAt = 0
  let newest = -1
  let newestAt = 0
  let lockError: IngestError | undefined

  function checkIn(ms: number): void {
    clearTimeout(timer)
    dueAt = performance.now() + ms
    // this thread may have been busy: responses that were sent in time are read first
    timer = setTimeout(() => {
      timer = setTimeout(check, readTimeoutMs)
    }, ms)
  }

  function check(): void {
    const now = performance.now()
    if (now - dueAt > lateMs) progressAt = newestAt = now
    if (isWaitingForLock(state)) {
      progressAt = now
      if (isLocked(now) && withdrawRequests(state)) {
        lockError = lockedError(lockHolder())
        onLocked(lockError)
      }
    } else if (now - progressAt >= timeoutMs) {
      onTimeout()
      return
    }
    checkIn(Math.min(checkMs, timeoutMs))
  }

  /** Whether no process has committed for as long as requests wait for the write lock. */
  function isLocked(now: number): boolean {
    const current = newestTransaction()
    if (current !== newest) newestAt = now
    newest = current
    return now - newestAt >= Math.min(lockTimeoutMs, timeoutMs)
  }

  return {
    start() {
      progressAt = performance.now()
      newest = -1
      lockError = undefined
      checkIn(Math.min(firstCheckMs, timeoutMs))
    },
    stop() {
      lockError = undefined
      clearTimeout(timer)
    },
    lockError: () => lockError,
  }
}
