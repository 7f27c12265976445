import type { KeyRecord } from './project.ts'

/** How coarse `lastUsedAt` is: a key in use costs one write of its project in this time. */
const lastUseIntervalMs = 3_600_000
/** The most uses that wait to be written; further ones are dropped, and noted with a later use of their key. */
export const usesQueuedMax = 1000
/** The most keys whose last attempt is remembered, so that a write that fails is not repeated by every request. */
const attemptsMax = 10_000

/** One use of a key, at a time in milliseconds since 1970. */
export interface KeyUse {
  projectId: string
  keyId: string
  at: number
}

/** Whether `lastUsedAt` says enough about a use at this time. */
export function isLastUseRecent({ lastUsedAt }: KeyRecord, at: number): boolean {
  return lastUsedAt !== undefined && Math.abs(at - lastUsedAt) < lastUseIntervalMs
}

/**
 * Notes uses of keys off the path of requests: `write` is called for one use after the other, at most once an hour for
 * a key. Its errors are ignored.
 */
export function createKeyUsage(write: (use: KeyUse) => Promise<void>): (use: KeyUse, record: KeyRecord) => void {
  const queue: KeyUse[] = []
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
    for (let use = queue[0]; use; use = queue[0]) {
      await write(use).catch(() => {})
      queue.shift()
    }
  }

  return (use, record) => {
    if (isLastUseRecent(record, use.at) || queue.length >= usesQueuedMax) return
    const name = `${use.projectId}/${use.keyId}`
    if (wasAttempted(name, use.at)) return
    rememberAttempt(name, use.at)
    if (queue.push(use) === 1) setImmediate(writeQueue)
  }
}
