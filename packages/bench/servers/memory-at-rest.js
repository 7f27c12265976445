import { setTimeout as sleep } from 'node:timers/promises'
import { ownBytes } from '../src/process-memory.js'

const pollMs = 250
const waitMsMax = 15_000
/** Cores that a process at rest may still use. */
const restCores = 0.05

/** The memory of this process for itself, once it has finished what it does in the background, and garbage is gone. */
export async function memoryAtRest() {
  for (const latest = Date.now() + waitMsMax; Date.now() < latest; ) {
    const before = process.cpuUsage()
    await sleep(pollMs)
    const { user, system } = process.cpuUsage(before)
    if ((user + system) / 1000 / pollMs < restCores) break
  }
  globalThis.gc?.()
  globalThis.gc?.()
  return ownBytes('self')
}
