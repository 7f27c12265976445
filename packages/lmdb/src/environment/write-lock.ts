import { openSync, readdirSync, readFileSync, readSync, realpathSync, type Stats, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { IngestError } from '@ingest/core'

/** A process other than this one that holds the write lock of an environment. */
export interface LockHolder {
  /** Undefined for a process that is not visible from here, such as one in another container. */
  pid: number | undefined
  /** Stopped by a signal or a debugger: it holds the lock until it is continued or ended. */
  isStopped: boolean
}

/**
 * How long requests wait for the write lock while no process commits, and openings and closings while one thread holds
 * it, before they are rejected.
 */
export const lockTimeoutMs = 5000

/** The error of a request that waits for the write lock. */
export function lockedError(holder?: LockHolder): IngestError {
  const name = holder?.pid === undefined ? 'a process that is not visible from here' : `process ${holder.pid}`
  const message = holder?.isStopped
    ? `The write lock of the store is held by ${name}, which is stopped: continue it (kill -CONT ${holder.pid}), or end it.`
    : `The write lock of the store was not free for ${lockTimeoutMs / 1000} seconds${holder ? `: ${name} holds it` : ''}. Try again later.`
  return new IngestError('store-locked', message, { retryAfterSeconds: 5 })
}

/** Looks at a lock without waiting for it. */
export interface LockProbe {
  /** The other process that holds it; undefined if no other process does, and always on systems other than Linux. */
  holder(): LockHolder | undefined
  /**
   * The id of the thread that holds it, also one of this process; always 0, as for none, on systems other than Linux.
   */
  thread(): number
  /** Whether a thread may be blocked until it is free; always false on systems other than Linux. */
  hasWaiter(): boolean
}

/**
 * Opens the probe of the write lock of an environment that is open.
 *
 * The lock is a robust mutex of glibc in the lock file: its first word is the id of the thread that holds it. It is
 * read from the memory to which this process has mapped the file, as closing the file would release the process's locks
 * on it.
 */
export function openLockProbe(lockPath: string): LockProbe {
  const address = process.platform === 'linux' ? mutexAddress(lockPath) : undefined
  if (address === undefined) return { holder: () => undefined, thread: () => 0, hasWaiter: () => false }
  const readWord = () => readMemory(address, 4).readUInt32LE()
  const readThread = () => readWord() & threadIdMask
  return {
    thread: readThread,
    hasWaiter: () => (readWord() & waitersFlag) !== 0,
    holder() {
      const thread = readThread()
      if (thread === 0 || readText(`/proc/self/task/${thread}/status`) !== undefined) return undefined
      const status = readText(`/proc/${thread}/status`) ?? ''
      const [, pid] = /^Tgid:\t(\d+)$/m.exec(status) ?? []
      // an id from another container may be the id of an unrelated thread here
      const isKnown = pid !== undefined && readText(`/proc/${pid}/maps`)?.includes('/lock.mdb')
      return { pid: isKnown ? Number(pid) : undefined, isStopped: isKnown === true && /^State:\t[Tt]/m.test(status) }
    },
  }
}

/** The other bits are flags: threads are waiting, and the holder has died. */
const threadIdMask = 0x3fffffff
const waitersFlag = 1 << 31
/** The possible offsets of the mutex in the lock file, by the size of a mutex: x64, arm64. */
const mutexOffsets = [64, 128]
const kindOffset = 16
/** Robust, and shared between processes. */
const mutexKind = 16 | 128

/** Another process that has mapped the data file at `path`, if one is visible from here. */
export function findProcessMapping(path: string): number | undefined {
  if (process.platform !== 'linux') return undefined
  const file = statSync(path)
  const mapping = new RegExp(` ${file.ino} +.*data\\.mdb`)
  const pids = readdirSync('/proc').map(Number)
  return pids.find(
    (pid) =>
      pid > 0 && pid !== process.pid && mapping.test(readText(`/proc/${pid}/maps`) ?? '') && mayHaveOpen(pid, file),
  )
}

/** Whether a process has a file open, or may have: another disk has the same inode numbers. */
function mayHaveOpen(pid: number, { dev, ino }: Stats): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      const file = statSync(`/proc/${pid}/fd/${fd}`, { throwIfNoEntry: false })
      return file?.dev === dev && file.ino === ino
    })
  } catch {
    return true
  }
}

function mutexAddress(lockPath: string): number | undefined {
  const mapped = join(realpathSync(dirname(lockPath)), basename(lockPath))
  const line = readText('/proc/self/maps')
    ?.split('\n')
    .find((line) => line.endsWith(` ${mapped}`))
  if (line === undefined) return undefined
  const start = Number.parseInt(line, 16)
  const offset = mutexOffsets.find((offset) => readMemory(start + offset + kindOffset, 4).readUInt32LE() === mutexKind)
  return offset && start + offset
}

/** The memory of this process, opened once in each thread: opening it takes longer than a read. */
let ownMemory: number | undefined

function readMemory(address: number, bytes: number): Buffer {
  ownMemory ??= openSync('/proc/self/mem', 'r')
  const read = Buffer.alloc(bytes)
  readSync(ownMemory, read, 0, bytes, address)
  return read
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
