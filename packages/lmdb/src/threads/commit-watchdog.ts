import type { IngestError } from '@ingest/core'
import { type LockHolder, lockedError, lockTimeoutMs } from '../environment/write-lock.ts'
import { type CommitState, isWaitingForLock, withdrawRequests } from './commit-state.ts'

/** How long the responses to an overdue commit may take to be read from the port. */
const readTimeoutMs = 20
/** When the thread is first checked after progress, and how often from then on. */
const firstCheckMs = 100
const checkMs = 1000
/** A check this late restarts the timeout: the process was stopped, or its main thread was busy. */
const lateMs = 1000

/** Watches a thread that commits. After an I/O error an LMDB commit may never return. */
export interface CommitWatchdog {
  /** Starts to watch, and starts over when the thread has made progress. */
  start(): void
  stop(): void
  /** `store-locked` while the thread has waited for the write lock for too long. */
  lockError(): IngestError | undefined
}

export interface WatchdogOptions {
  /** Shared with the thread. */
  state: CommitState
  /** The other process that holds the write lock, to name it. */
  lockHolder: () => LockHolder | undefined
  /**
   * The number of the last commit of any process: while it grows, other processes commit, and this one gets its turn.
   */
  newestTransaction: () => number
  /**
   * A commit that takes longer, in milliseconds, has failed; the time that it waits for the write lock does not count.
   */
  timeoutMs: number
}

/**
 * @param onLocked called for each check that finds the thread waiting for the write lock: no request that was sent will
 *   be committed
 * @param onTimeout called once when a commit takes too long
 */
export function createCommitWatchdog(
  { state, lockHolder, newestTransaction, timeoutMs }: WatchdogOptions,
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
