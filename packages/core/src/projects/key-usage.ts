import type { KeyRecord } from '../store-types.ts'

/** Resolution of `lastUsedAt`: a key in use costs one write of its project per interval. */
const lastUseIntervalMs = 3_600_000
/** Maximum number of uses queued for writing. Further uses are dropped; a later use of the key is recorded. */
export const usesQueuedMax = 1000
/** Maximum number of keys whose last attempt is remembered, so that not every request repeats a failed write. */
const attemptsMax = 10_000

/** One use of a key of a project, at a time in milliseconds since 1970. */
export interface KeyUse {
  keyId: string
  at: number
}

/** Whether `lastUsedAt` is recent enough that a use at this time need not be recorded. */
export function isLastUseRecent({ lastUsedAt }: KeyRecord, at: number): boolean {
  return lastUsedAt !== undefined && Math.abs(at - lastUsedAt) < lastUseIntervalMs
}

/**
 * Records uses of keys outside of requests, at most once an hour for each key. Calls `write` for one project after
 * another, with all of its queued uses. Errors of `write` are ignored.
 */
export function createKeyUsage(
  write: (projectId: string, uses: readonly KeyUse[]) => Promise<void>,
): (projectId: string, use: KeyUse, record: KeyRecord) => void {
  const queue = new Map<string, KeyUse[]>()
  let queued = 0
  const attemptedAt = new Map<string, number>()

  function wasAttempted(name: string, at: number): boolean {
    return Math.abs(at - (attemptedAt.get(name) ?? Number.NEGATIVE_INFINITY)) < lastUseIntervalMs
  }

  function rememberAttempt(name: string, at: number): void {
    const [oldest] = attemptedAt.keys()
    attemptedAt.delete(attemptedAt.size >= attemptsMax && oldest !== undefined ? oldest : name)
    attemptedAt.set(name, at)
  }

  async function writeQueue(): Promise<void> {
    for (const [projectId, uses] of queue) {
      queue.delete(projectId)
      await write(projectId, uses).catch(() => {})
      queued -= uses.length
    }
  }

  return (projectId, use, record) => {
    if (isLastUseRecent(record, use.at) || queued >= usesQueuedMax) return
    const name = `${projectId}/${use.keyId}`
    if (wasAttempted(name, use.at)) return
    rememberAttempt(name, use.at)
    const uses = queue.get(projectId)
    if (uses) uses.push(use)
    else queue.set(projectId, [use])
    if (++queued === 1) setImmediate(writeQueue)
  }
}
