import type { IngestError } from '@ingest/core'
import { type LockHolder, lockedError, lockTimeoutMs } from '../environment/write-lock.ts'
import { type CommitState, isWaitingForLock, withdrawRequests } from './commit-state.ts'

/** How long the responses to an overdue commit may take to be read from the port. */
const readTimeoutMs = 20
/** How often the thread is checked once the first time-out has passed. */
const checkMs = 1000
/** A check that is later than this starts over: the process was stopped, or its main thread busy. */
const lateMs = 1000

/** Watches a thread that commits. After an I/O error an LMDB commit may never return. */
export interface CommitWatchdog {
  /** Starts to watch, and starts over when the thread has made progress. */
  start(): void
  stop(): void
  /** `store-locked` while the thread has waited for the write lock for too long. */
  lockError(): IngestError | undefined
}

export interface CommitWatchdogOptions {
  state: CommitState
  /** The other process that holds the write lock, to name it. */
  lockHolder: () => LockHolder | undefined
  /** How long a commit may take, in milliseconds; the time that it waits for the write lock does not count. */
  timeoutMs: number
  /** Called for each check that finds the thread waiting for the write lock: no request that was sent will be committed. */
  onLocked: (error: IngestError) => void
  /** Called once when a commit takes too long. */
  onTimeout: () => void
}

export function createCommitWatchdog(options: CommitWatchdogOptions): CommitWatchdog {
  const { state, lockHolder, timeoutMs, onLocked, onTimeout } = options
  let timer: NodeJS.Timeout | undefined
  let progressAt = 0
  let dueAt = 0
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
    if (now - dueAt > lateMs) progressAt = now
    if (isWaitingForLock(state) && withdrawRequests(state)) {
      lockError = lockedError(lockHolder())
      progressAt = now
      onLocked(lockError)
    } else if (now - progressAt >= timeoutMs) {
      onTimeout()
      return
    }
    checkIn(Math.min(checkMs, timeoutMs))
  }

  return {
    start() {
      progressAt = performance.now()
      lockError = undefined
      checkIn(Math.min(lockTimeoutMs, timeoutMs))
    },
    stop() {
      lockError = undefined
      clearTimeout(timer)
    },
    lockError: () => lockError,
  }
}
