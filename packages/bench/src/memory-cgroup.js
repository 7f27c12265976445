import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A group of processes with limited memory, which counts the pages of files that they read (Linux, root).
 *
 * @typedef {object} MemoryCgroup
 * @property {(pid: number) => void} add a process, from now on
 * @property {() => void} remove once its processes have ended
 */

const root = '/sys/fs/cgroup'
const name = `ingest-bench-${process.pid}`

/** @param {number} bytes @returns {MemoryCgroup | string} the cgroup, or the reason why it cannot be created */
export function makeMemoryCgroup(bytes) {
  const isSecond = existsSync(join(root, 'cgroup.controllers'))
  const parent = isSecond ? root : join(root, 'memory')
  const path = join(parent, name)
  try {
    if (isSecond) writeFileSync(join(parent, 'cgroup.subtree_control'), '+memory')
    mkdirSync(path)
    writeFileSync(join(path, isSecond ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes))
  } catch (error) {
    return `cannot create a memory cgroup: ${error instanceof Error ? error.message : error}`
  }
  return {
    add: (pid) => writeFileSync(join(path, 'cgroup.procs'), String(pid)),
    remove: () => rmdirSync(path),
  }
}

/** Drops the page cache of the data files of a closed store. @param {string} directory */
export function dropCaches(directory) {
  for (const name of ['events', 'chunks', 'ids']) {
    const file = join(directory, name, 'data.mdb')
    execFileSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0'], { stdio: ['ignore', 'ignore', 'pipe'] })
  }
}

/**
 * The bytes that a process has read from the disk, and its major page faults; NaN without /proc.
 *
 * @param {number} pid
 */
export function readDiskReads(pid) {
  try {
    const [, bytes] = /^read_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8')) ?? []
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // see proc_pid_stat(5); the name before it may contain anything
    const faults = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[9]
    return { bytes: Number(bytes), faults: Number(faults) }
  } catch {
    return { bytes: Number.NaN, faults: Number.NaN }
  }
}
