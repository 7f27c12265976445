import type { IngestError } from '@ingest/core'
import { type LockHolder, lockedError, lockTimeoutMs } from '../environment/write-lock.ts'

/** How long the responses to an overdue commit may take to be read from the port. */
const readTimeoutMs = 20
/** How often the holder of the write lock is checked once requests were rejected because of it. */
const lockCheckMs = 1000

/** Watches a thread that commits. After an I/O error an LMDB commit may never return. */
export interface CommitWatchdog {
  /** Starts to watch, and starts over when the thread has made progress. */
  start(): void
  stop(): void
  /** `store-locked` while another process has held the write lock for too long. */
  lockError(): IngestError | undefined
}

export interface CommitWatchdogOptions {
  /** The other process that holds the write lock. */
  lockHolder: () => LockHolder | undefined
  /** How long a commit may take, in milliseconds; the time that another process holds the write lock does not count. */
  timeoutMs: number
  /** Called for each check that finds the write lock held by another process. */
  onLocked: (error: IngestError) => void
  /** Called once when a commit takes too long. */
  onTimeout: () => void
}

export function createCommitWatchdog(options: CommitWatchdogOptions): CommitWatchdog {
  const { lockHolder, timeoutMs, onLocked, onTimeout } = options
  let timer: NodeJS.Timeout | undefined
  let progressAt = 0
  let lockError: IngestError | undefined

  function checkIn(ms: number): void {
    clearTimeout(timer)
    // this thread may have been busy: responses that were sent in time are read first
    timer = setTimeout(() => {
      timer = setTimeout(check, readTimeoutMs)
    }, ms)
  }

  function check(): void {
    const holder = lockHolder()
    const now = performance.now()
    lockError = holder && lockedError(holder)
    if (lockError) {
      progressAt = now
      onLocked(lockError)
    } else if (now - progressAt >= timeoutMs) {
      onTimeout()
      return
    }
    checkIn(Math.min(lockCheckMs, timeoutMs))
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
