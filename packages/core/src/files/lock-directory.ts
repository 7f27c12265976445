import {
  closeSync,
  fstatSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '../error.ts'
import { isPermissionDenied, permissionDenied } from './permission.ts'

/** How often a holder rewrites its lock. */
const beatMs = 2000
/** A lock not rewritten for this long is stale to processes that cannot see its holder. */
const staleMs = 10_000

/** A directory that is locked by {@link lockDirectory}. */
export interface DirectoryLock {
  /**
   * False once another process has taken over the lock while this one was stopped, or the lock file was deleted or
   * moved.
   */
  isHeld(): boolean
  /** Does nothing to a lock that is no longer held. */
  unlock(): void
}

/**
 * Locks a directory for this process. The lock of a process that has ended is stale and is taken over. The file `name`
 * holds the process id and, on Linux, the start time of that process, since process ids are reused, and its PID
 * namespace.
 *
 * Whether a process of another PID namespace, such as another container, is running is unknown: its lock is stale if it
 * was not rewritten for 10 seconds. So a container that replaces a killed one must retry for that long, and a process
 * that is stopped for longer may lose its directory to another container. Files left by processes that were killed in
 * this function are removed.
 *
 * @throws {IngestError} `permission-denied`; `invalid-argument` while another process, or this one, holds the lock, and
 *   for a foreign file in its place
 */
export function lockDirectory(directory: string, name = 'lock'): DirectoryLock {
  const path = join(directory, name)
  const namespace = pidNamespace()
  const own = `${path}.${process.pid}${namespace}`
  const text = `${process.pid} ${startTime(process.pid)} ${namespace}\n`
  // left by a killed process with the same id; writing to it would change the lock that it is linked to
  if ((lstatSync(own, { throwIfNoEntry: false })?.nlink ?? 1) > 1) rmSync(own)
  const fd = openIn(directory, own)
  try {
    // link an existing file, so that no process reads an empty lock
    writeSync(fd, text, 0)
    while (!tryLink(own, path)) removeStale(path, { own, directory })
    rmSync(own)
  } catch (error) {
    closeSync(fd)
    rmSync(own, { force: true })
    throw error
  }
  removeAbandoned(directory, name)
  const beat = setInterval(() => tryWrite(fd, text), beatMs).unref()
  let isLocked = true
  const isHeld = () => isLocked && hasPath(fd, path)
  return {
    isHeld,
    unlock() {
      if (!isLocked) return
      const isOwn = isHeld()
      isLocked = false
      clearInterval(beat)
      closeSync(fd)
      if (isOwn) tryRemove(path)
    },
  }
}

/** Whether an open file still has this path: writes to a file that was deleted or moved succeed and are lost. */
export function hasPath(fd: number, path: string): boolean {
  try {
    const named = statSync(path, { bigint: true })
    const open = fstatSync(fd, { bigint: true })
    return named.ino === open.ino && named.dev === open.dev
  } catch (error) {
    // any other error means that the file, or the file system, is gone
    return isPermissionDenied(error)
  }
}

/** Keeps the lock of a directory that can no longer be written; it becomes stale when this process ends. */
function tryRemove(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {}
}

function openIn(directory: string, own: string): number {
  try {
    return openSync(own, 'w', 0o600)
  } catch (error) {
    throw isPermissionDenied(error) ? permissionDenied(directory, error) : error
  }
}

/** Updates the file's time by the clock of its file system, which all processes share. */
function tryWrite(fd: number, text: string): void {
  try {
    writeSync(fd, text, 0)
  } catch {
    // the disk is full; the next write may succeed
  }
}

/** Removes files of processes that were killed in `lockDirectory`. */
function removeAbandoned(directory: string, name: string): void {
  const now = timeOf(join(directory, name))
  for (const file of readdirSync(directory)) {
    if (!file.startsWith(`${name}.`) || !/^[1-9]\d*(@[\da-f-]+)?(\.stale)?$/.test(file.slice(name.length + 1))) continue
    const path = join(directory, file)
    if (timeOf(path) < now - staleMs) rmSync(path, { force: true })
  }
}

/** When a file was last written, in milliseconds since 1970; 0 if it no longer exists. */
function timeOf(path: string): number {
  return lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

function tryLink(own: string, path: string): boolean {
  try {
    linkSync(own, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function removeStale(path: string, { own, directory }: { own: string; directory: string }): void {
  const holder = readHolder(path)
  if (holder === undefined) return
  const [pid = '', start = '', namespace = ''] = holder.trim().split(' ')
  const isVisible = namespace === pidNamespace()
  if (isVisible ? isAlive(pid, start) : timeOf(path) > timeOf(own) - staleMs) {
    const who = isVisible ? `process ${pid}` : `process ${pid} of another container, or was in the last 10 seconds`
    const remedy = 'each sender or export needs its own directory'
    throw new IngestError('invalid-argument', `${directory} is in use by ${who}: ${remedy}.`)
  }
  const stale = `${own}.stale`
  try {
    renameSync(path, stale)
  } catch {
    return
  }
  // another process may have replaced the stale lock by its own in the meantime: restore that one
  const taken = readHolder(stale)
  if (taken !== undefined && taken !== holder) tryLink(stale, path)
  rmSync(stale, { force: true })
}

/** Undefined if the lock no longer exists. */
function readHolder(path: string): string | undefined {
  const entry = lstatSync(path, { throwIfNoEntry: false })
  if (entry && !entry.isFile()) throw notALock(path, 'it is not a regular file')
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (isPermissionDenied(error)) throw permissionDenied(path, error)
    throw notALock(path, message)
  }
}

function notALock(path: string, reason: string): IngestError {
  return new IngestError(
    'invalid-argument',
    `${path} is not a lock: ${reason}. Move it away, or name another directory.`,
  )
}

function isAlive(pid: string, start: string): boolean {
  return /^[1-9]\d*$/.test(pid) && isRunning(Number(pid)) && start === startTime(Number(pid))
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The start time of a process, in clock ticks; empty on systems without /proc. */
function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // the process name before it may contain anything; `starttime` is the 22nd field, see proc_pid_stat(5)
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}

/** The PID namespace of this process and the boot of its kernel, for a file name; empty on systems without /proc. */
export function pidNamespace(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `@${boot}-${readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')}`
  } catch {
    return ''
  }
}
