import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import { syncDirectoryNow } from '@ingest/core/internal'
import { checkLockFile, inspectDataFile, syncDataFile } from './data-file.ts'
import { createInnerFiles } from './directory.ts'
import { checkFreeSpace } from './disk-space.ts'
import { closeRoot, openRoot, type Root, releaseReused } from './root.ts'
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
   * @throws {IngestError} `store-locked` when one thread stays inside for {@link lockTimeoutMs}; `work` did not run
   */
  enter<T>(work: () => T): Promise<T>
  /**
   * Resolves when the threads that waited for the gate after the last {@link run} have been inside: a thread that
   * enters again and again would starve them. Does not wait for threads that do not enter. Waits with `pause`, which
   * takes milliseconds.
   */
  untilTurn(pause: Pause): Promise<void>
  /** The other process that is inside; undefined if no other process is, or it is not known. */
  holder(): LockHolder | undefined
  close(): void
}

type Pause = (ms: number) => Promise<unknown>

/** The directory of the gate within that of its environment. */
export const gateDirectory = 'gate'

const gateBytes = 2 ** 20
const pollMs = 1
/**
 * How long a thread enters again and again before it lets others in: with less, a fast disk would wait for wake-ups.
 */
const turnMs = 10
/** How long a blocked thread may take to wake up. */
const wakeUpMs = 20
/**
 * How long the gate is left free for a thread that polls it, and after which time again: a stopped one never enters.
 */
const offerMs = 100
const offerAgainMs = 2000

/**
 * Opens the gate of the environment in `directory`, and creates it durably when it is missing. A damaged data file, as
 * after a power loss, is written again.
 *
 * @param isFirst whether no other thread of this process has it open
 * @throws {IngestError} `store-incompatible` for files that LMDB cannot open safely; `disk-full`; `store-locked`
 */
export function openGate(directory: string, isFirst: boolean): Gate {
  const path = join(directory, gateDirectory)
  const [dataPath, lockPath] = [join(path, 'data.mdb'), join(path, 'lock.mdb')] as const
  const hasLockFile = checkLockFile(lockPath)
  const dataFile = inspectDataFile(dataPath)
  createInnerFiles(path)
  if (!hasLockFile || dataFile !== 'whole') checkFreeSpace(path)
  if (dataFile === 'damaged') writeAndSync(dataPath, newContent(path))
  const open = () => openRoot(path, gateBytes)
  const root = isFirst ? releaseReused(open(), open) : open()
  if (dataFile === 'missing') {
    syncDataFile(dataPath)
    syncDirectoryNow(path)
  }
  // readers are those that poll: killed ones would be waited for
  root.readerCheck()
  const { holder, thread, hasWaiter } = openLockProbe(lockPath)
  let turnBegunAt = 0
  let wakeUpUntil = 0
  let offerFrom = 0

  function run<T>(work: () => T): T {
    let result: { value: T } | undefined
    // it writes nothing, so nothing is synced
    root.transactionSync(() => {
      checkBegun(root)
      result = { value: work() }
      wakeUpUntil = hasWaiter() ? performance.now() + wakeUpMs : 0
    })
    return (result as { value: T }).value
  }

  /**
   * Polls until no thread is inside. Holds a snapshot meanwhile, by which {@link letPollersIn} finds those that poll.
   */
  async function untilFree(): Promise<void> {
    const snapshot = root.useReadTransaction()
    try {
      for (const watch = watchHolder(thread); ; await sleep(pollMs)) {
        const { id, sameForMs } = watch()
        if (id === 0) return
        if (sameForMs >= lockTimeoutMs) throw lockedError(holder() ?? { pid: process.pid, isStopped: false })
      }
    } finally {
      snapshot.done()
      root.resetReadTxn()
    }
  }

  /** Returns false when some pollers have not entered, although the gate was free. */
  async function letPollersIn(pause: Pause): Promise<boolean> {
    let pollers = pollersOf(root)
    for (const watch = watchHolder(thread); pollers.length > 0; await pause(pollMs)) {
      const { id, sameForMs } = watch()
      if (sameForMs >= (id === 0 ? offerMs : lockTimeoutMs)) return false
      root.readerCheck()
      const current = pollersOf(root)
      pollers = pollers.filter((each) => current.includes(each))
    }
    return true
  }

  return {
    run,
    async enter(work) {
      if (thread() !== 0) await untilFree()
      return run(work)
    },
    async untilTurn(pause) {
      if (performance.now() - turnBegunAt < turnMs) return
      while (thread() === 0 && performance.now() < wakeUpUntil) await pause(pollMs)
      if (performance.now() >= offerFrom && !(await letPollersIn(pause))) offerFrom = performance.now() + offerAgainMs
      turnBegunAt = performance.now()
    },
    holder,
    close: () => closeRoot(root),
  }
}

/** A name for each thread that holds a snapshot of the gate: its process, its id, and the number of the snapshot. */
function pollersOf(root: Root): string[] {
  return root.readerList().match(/^ *\d+ +[0-9a-f]+ +\d+$/gm) ?? []
}

/** Returns a function that returns the thread inside the gate, and for how long it has been the same. */
function watchHolder(thread: () => number): () => { id: number; sameForMs: number } {
  let last = thread()
  let since = performance.now()
  return () => {
    const id = thread()
    if (id !== last) since = performance.now()
    last = id
    return { id, sameForMs: performance.now() - since }
  }
}

/**
 * The content that LMDB writes into a new gate's data file. Uses a directory below `path`, which is known to be
 * writable.
 */
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
 * Writes the content of a gate in place: a process that has the file open keeps it and reads the former content, and
 * another opening writes the same content. To LMDB, a new file in its place would be another environment, and a thread
 * that opened it would release the locks of its process on the lock file of both.
 */
function writeAndSync(dataPath: string, content: Buffer): void {
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
