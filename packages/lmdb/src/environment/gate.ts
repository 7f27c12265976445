import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import { syncDirectoryNow } from '@ingest/core/internal'
import { checkLockFile, inspectDataFile } from './data-file.ts'
import { createInnerFiles } from './directory.ts'
import { checkFreeSpace } from './disk-space.ts'
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
 *
 * So its data file always has the content with which LMDB creates it, and a damaged one is given that content again.
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
 * Opens the gate of the environment in `directory`, and creates it durably when it is missing. A damaged data file, as
 * after a power loss, is written again.
 *
 * @throws {IngestError} `store-incompatible` for files that LMDB cannot open safely; `disk-full`; `store-locked`
 */
export function openGate(directory: string): Gate {
  const path = join(directory, gateDirectory)
  const [dataPath, lockPath] = [join(path, 'data.mdb'), join(path, 'lock.mdb')] as const
  const hasLockFile = checkLockFile(lockPath)
  const dataFile = inspectDataFile(dataPath)
  createInnerFiles(path)
  if (!hasLockFile || dataFile !== 'whole') checkFreeSpace(path)
  if (dataFile === 'damaged') writeAndSync(dataPath, newContent(path))
  const root = openRoot(path, gateBytes)
  if (dataFile === 'missing') {
    // LMDB does not sync what it creates
    writeAndSync(dataPath)
    syncDirectoryNow(path)
  }
  const { holder, isHeld } = openLockProbe(lockPath)

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

/** What LMDB writes into the data file of a new gate. Below `path`, as nowhere else is known to be writable. */
function newContent(path: string): Buffer {
  const directory = mkdtempSync(join(path, 'new-'))
  try {
    closeRoot(openRoot(directory, gateBytes))
    return readFileSync(join(directory, 'data.mdb'))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/**
 * Writes the content of a gate in place: whoever has the file open keeps it and reads what was there before, and another
 * opening writes the same. A new file in its place would be another environment to LMDB, and a thread that opened it
 * would release the locks of its process on the lock file of both.
 */
function writeAndSync(dataPath: string, content: Buffer = Buffer.alloc(0)): void {
  const file = openSync(dataPath, 'r+')
  try {
    writeSync(file, content, 0, content.length, 0)
    fsyncSync(file)
  } finally {
    closeSync(file)
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
