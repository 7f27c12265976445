import { readFileSync } from 'node:fs'

/**
 * The memory that a process has for itself, in bytes: anonymous pages and shared memory, so without the pages of files
 * that it has mapped, which are LMDB's cache and can be reclaimed. Undefined where there is no /proc.
 *
 * @param {number | 'self'} pid
 */
export function ownBytes(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const kilobytes = ['RssAnon', 'RssShmem'].map(
      (name) => new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1],
    )
    return kilobytes.includes(undefined) ? undefined : kilobytes.reduce((sum, text) => sum + Number(text) * 1024, 0)
  } catch {
    return undefined
  }
}

/**
 * The seconds of processor time that a process has used by now, over all its threads. Undefined where there is no /proc.
 *
 * @param {number} pid
 */
export function cpuSeconds(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // utime and stime, in ticks of 10 ms
    return (Number(fields[11]) + Number(fields[12])) / 100
  } catch {
    return undefined
  }
}
