import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '@ingest/core'

/**
 * Takes a directory for this process, and returns what gives it back. A process that has ended, however it did, holds
 * nothing: the file `name` says who holds it, by process id and, where the system tells (Linux), the time at which that
 * process began, since a process id comes again, in a container at every start.
 *
 * @throws {IngestError} `invalid-argument` while another process, or this one, holds it.
 */
export function lockDirectory(directory: string, name = 'lock'): () => void {
  const path = join(directory, name)
  const own = `${path}.${process.pid}`
  try {
    // the lock appears with its content, so that no process reads an empty one
    writeFileSync(own, `${process.pid} ${startOf(process.pid)}\n`, { mode: 0o600 })
    while (!takes(own, path)) removeDead(path, directory)
  } finally {
    rmSync(own, { force: true })
  }
  return () => rmSync(path, { force: true })
}

function takes(own: string, path: string): boolean {
  try {
    linkSync(own, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function removeDead(path: string, directory: string): void {
  const holder = holderOf(path)
  if (holder === undefined) return
  if (isAlive(holder)) {
    const [pid] = holder.split(' ')
    throw new IngestError(
      'invalid-argument',
      `${directory} is in use by process ${pid}: give each process a directory of its own.`,
    )
  }
  const dead = `${path}.${process.pid}.dead`
  try {
    renameSync(path, dead)
  } catch {
    return
  }
  // whoever was faster may have taken it in between
  if (holderOf(dead) !== holder) takes(dead, path)
  rmSync(dead, { force: true })
}

function holderOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function isAlive(holder: string): boolean {
  const [pid, start = ''] = holder.trim().split(' ')
  if (!/^[1-9]\d*$/.test(pid ?? '')) return false
  try {
    process.kill(Number(pid), 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  return start === startOf(Number(pid))
}

/** When a process began, in a unit of the system's; nothing where that is not told. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // the name before it may hold anything; `starttime` is the 22nd field, see proc_pid_stat(5)
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
