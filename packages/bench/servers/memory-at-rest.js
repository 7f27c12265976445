import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const pollMs = 250
const waitMsMax = 15_000
/** The cores that a process at rest may use. */
const restCores = 0.05

/** The memory of this process in bytes after background work and garbage collection; undefined without /proc. */
export async function memoryAtRest() {
  for (const latest = Date.now() + waitMsMax; Date.now() < latest; ) {
    const before = process.cpuUsage()
    await sleep(pollMs)
    const { user, system } = process.cpuUsage(before)
    if ((user + system) / 1000 / pollMs < restCores) break
  }
  globalThis.gc?.()
  globalThis.gc?.()
  return ownBytes()
}

/** Anonymous and shared memory: mapped pages of files are LMDB's cache and can be reclaimed. */
function ownBytes() {
  try {
    const status = readFileSync('/proc/self/status', 'utf8')
    const kilobytes = [...status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)]
    return kilobytes.reduce((sum, [, text]) => sum + Number(text) * 1024, 0)
  } catch {
    return undefined
  }
}
