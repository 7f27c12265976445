import { linkSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '../error.ts'

/**
 * Locks a directory for this process, and returns the function that unlocks it. The lock of a process that has ended is
 * stale and is taken over: the file `name` holds the process id and, on Linux, the start time of that process, since
 * process ids are reused, in a container at every start. Files of processes that were killed while they locked are removed.
 *
 * @throws {IngestError} `invalid-argument` while another process, or this one, holds the lock, and for a foreign file in
 *   its place
 */
export function lockDirectory(directory: string, name = 'lock'): () => void {
  const path = join(directory, name)
  const own = `${path}.${process.pid}`
  try {
    // link an existing file, so that no process reads an empty lock
    writeFileSync(own, `${process.pid} ${startTime(process.pid)}\n`, { mode: 0o600 })
    while (!tryLink(own, path)) removeStale(path, directory)
  } finally {
    rmSync(own, { force: true })
  }
  removeAbandoned(directory, name)
  return () => rmSync(path, { force: true })
}

/** Removes what processes that were killed in `lockDirectory` left behind. */
function removeAbandoned(directory: string, name: string): void {
  for (const file of readdirSync(directory)) {
    if (!file.startsWith(`${name}.`)) continue
    const [, pid] = /^([1-9]\d*)(\.stale)?$/.exec(file.slice(name.length + 1)) ?? []
    if (pid === undefined || (Number(pid) !== process.pid && isRunning(Number(pid)))) continue
    rmSync(join(directory, file), { force: true })
  }
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

function removeStale(path: string, directory: string): void {
  const holder = readHolder(path)
  if (holder === undefined) return
  if (isAlive(holder)) {
    const [pid] = holder.split(' ')
    throw new IngestError(
      'invalid-argument',
      `${directory} is in use by process ${pid}: each process needs its own directory.`,
    )
  }
  const stale = `${path}.${process.pid}.stale`
  try {
    renameSync(path, stale)
  } catch {
    return
  }
  // another process may have replaced the stale lock by its own in the meantime: put that one back
  if (readHolder(stale) !== holder) tryLink(stale, path)
  rmSync(stale, { force: true })
}

/** Undefined for a lock that has gone meanwhile. */
function readHolder(path: string): string | undefined {
  const entry = lstatSync(path, { throwIfNoEntry: false })
  if (entry && !entry.isFile()) throw notALock(path, 'it is not a regular file')
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw notALock(path, message)
  }
}

function notALock(path: string, reason: string): IngestError {
  return new IngestError(
    'invalid-argument',
    `${path} is not a lock: ${reason}. Move it away, or name another directory.`,
  )
}

function isAlive(holder: string): boolean {
  const [pid, start = ''] = holder.trim().split(' ')
  return /^[1-9]\d*$/.test(pid ?? '') && isRunning(Number(pid)) && start === startTime(Number(pid))
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
