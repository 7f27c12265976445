import type { KeyRecord } from './project.ts'

/** How coarse `lastUsedAt` is: a key in use costs one write of its project in this time. */
const lastUseIntervalMs = 3_600_000
/** The most uses that wait to be written; further ones are dropped, and noted with a later use of their key. */
export const usesQueuedMax = 1000
/** The most keys whose last attempt is remembered, so that a write that fails is not repeated by every request. */
const attemptsMax = 10_000

/** One use of a key of a project, at a time in milliseconds since 1970. */
export interface KeyUse {
  keyId: string
  at: number
}

/** Whether `lastUsedAt` says enough about a use at this time. */
export function isLastUseRecent({ lastUsedAt }: KeyRecord, at: number): boolean {
  return lastUsedAt !== undefined && Math.abs(at - lastUsedAt) < lastUseIntervalMs
}

/**
 * Notes uses of keys off the path of requests, at most once an hour for a key: `write` is called for one project after the
 * other, with all of its uses that wait. Its errors are ignored.
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
