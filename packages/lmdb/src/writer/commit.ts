import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment } from '../environment/environment.ts'
import { lockedError, lockTimeoutMs } from '../environment/write-lock.ts'
import { type SerializedError, serializeError } from '../threads/error-transfer.ts'
import type { Outcome } from '../threads/request-loop.ts'

/** Writes for many requests at once; once the disk has failed, for none. */
export interface Commit {
  /**
   * Resolves when a write can be tried: no stopped process holds the write lock, and a disk that was full has some
   * space again. Called before each commit, because a thread that waits inside LMDB cannot be ended: neither its
   * process nor the store could be closed.
   *
   * @throws {IngestError} `disk-full`, `store-locked` when it takes longer than {@link lockTimeoutMs}
   */
  ready(): Promise<void>
  /**
   * Makes what `write` does durable, in one transaction, and answers each request with its value. When anything fails
   * the whole of it is undone, `onUndone` is called, and every request is refused.
   */
  commit<Value>(requests: readonly Asked[], write: () => Value[], onUndone?: () => void): Outcome<Value>[]
  /** Refuses requests for what came up before anything was written for them. */
  refuse(requests: readonly Asked[], error: unknown): Outcome<never>[]
  /** After a failed disk, LMDB's next transaction may be none, or never end. */
  failure(): SerializedError | undefined
}

interface Asked {
  id: number
}

/** How often the lock is polled while a stopped process holds it. */
const pollMs = 50

export function createCommit({ write: writeAll, lockHolder, isDiskFull: isFull, checkSpace }: Environment): Commit {
  let failure: SerializedError | undefined
  let lockedSince: number | undefined
  let isDiskFull = false

  function refuse(requests: readonly Asked[], error: unknown): Outcome<never>[] {
    const serialized = serializeError(error, isFull)
    if (serialized.code === 'store-failed') failure ??= serialized
    isDiskFull = serialized.code === 'disk-full'
    return requests.map(({ id }) => ({ id, error: serialized }))
  }

  return {
    async ready() {
      // a commit that fails is expensive
      if (isDiskFull) checkSpace()
      for (let holder = lockHolder(); holder?.isStopped; holder = lockHolder()) {
        lockedSince ??= performance.now()
        if (performance.now() - lockedSince > lockTimeoutMs) throw lockedError(holder)
        await sleep(pollMs)
      }
      lockedSince = undefined
    },

    commit(requests, write, onUndone = () => {}) {
      if (failure) return requests.map(({ id }) => ({ id, error: failure as SerializedError }))
      try {
        const values = writeAll(write)
        return requests.map(({ id }, i) => ({ id, value: values[i] as (typeof values)[number] }))
      } catch (error) {
        onUndone()
        return refuse(requests, error)
      }
    },
    refuse,
    failure: () => failure,
  }
}
