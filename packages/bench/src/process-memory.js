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
