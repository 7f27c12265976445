import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import { makeDirectory } from '@ingest/core/internal'
import { checkDataFile, checkLockFile } from './data-file.ts'
import { closeRoot, openRoot } from './root.ts'
import { type LockHolder, lockedError, lockTimeoutMs, openLockProbe } from './write-lock.ts'

/**
 * A lock around every opening, commit and closing of an environment, over all processes and their threads.
 *
 * `mdb_env_open2` of LMDB sets the shared number of the last transaction to the one that it read from the file before,
 * without a lock. A commit in between is undone: the next writer begins from the snapshot before it, and replaces it
 * (OpenLDAP ITS#9496, not fixed in lmdb 3.5.6). The last process that closes an environment destroys mutexes that an
 * opening one is about to use, and threads that open tables at the same time give them the same numbers.
 *
 * The lock is the write lock of an environment of its own, which is never written to, so that its own openings have no
 * commit to undo. The kernel releases it when its process is killed.
 */
export interface Gate {
  /** Runs `work` inside the gate. Blocks this thread while another one is inside. */
  run<T>(work: () => T): T
  /**
   * Runs `work` inside the gate. Does not block this thread while another one is inside, on Linux.
   *
   * @throws {IngestError} `store-locked` when another thread stays inside for {@link lockTimeoutMs}; `work` did not run
   */
  enter<T>(work: () => T): Promise<T>
  /** The other process that is inside; undefined when there is none, or it is not known. */
  holder(): LockHolder | undefined
  close(): void
}

/** The directory of the gate within that of its environment. */
export const gateDirectory = 'gate'

const gateBytes = 2 ** 20
const pollMs = 1

/**
 * Opens the gate of the environment in `directory`, and creates it when it is missing.
 *
 * @throws {IngestError} `store-incompatible` for files that LMDB cannot open safely; `store-locked`
 */
export function openGate(directory: string): Gate {
  const path = join(directory, gateDirectory)
  checkDataFile(join(path, 'data.mdb'))
  checkLockFile(join(path, 'lock.mdb'))
  makeDirectory(path)
  const root = openRoot(path, gateBytes)
  const { holder, isHeld } = openLockProbe(join(path, 'lock.mdb'))

  function run<T>(work: () => T): T {
    let result: { value: T } | undefined
    // it writes nothing, so nothing is synced
    root.transactionSync(() => {
      checkBegun(root)
      result = { value: work() }
    })
    return (result as { value: T }).value
  }

  return {
    run,
    async enter(work) {
      for (const until = performance.now() + lockTimeoutMs; isHeld(); await sleep(pollMs)) {
        if (performance.now() >= until) throw lockedError(holder() ?? { pid: process.pid, isStopped: false })
      }
      return run(work)
    },
    holder,
    close: () => closeRoot(root),
  }
}

/**
 * Checks inside of a write transaction that LMDB has begun one, as lmdb ignores that it has not. Returns its number.
 *
 * @throws {IngestError} `store-failed`
 */
export function checkBegun(root: object): number {
  const transaction = (root as { getWriteTxnId(): number }).getWriteTxnId()
  if (transaction > 0) return transaction
  throw new IngestError('store-failed', 'LMDB could not begin a write transaction: its lock file is damaged.')
}
