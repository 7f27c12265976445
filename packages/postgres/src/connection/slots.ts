import { IngestError } from '@ingest/core'
import { toStoreError } from './database-error.ts'

/** Maximum number of statements that wait for a connection. */
const waitingMax = 10_000

/**
 * Slots for connections. They are needed because a pool's connection timeout includes the wait for a free connection.
 */
export function createSlots(count: number) {
  let free = count
  const waiting = new Set<() => void>()
  return {
    /** Takes a slot, which must be released. */
    async take(deadline: number): Promise<void> {
      if (free > 0) {
        free--
        return
      }
      if (waiting.size >= waitingMax) {
        throw new IngestError('overloaded', 'Too many statements wait for the database.', { retryAfterSeconds: 1 })
      }
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(take)
          reject(toStoreError(new Error('timeout expired')))
        }, deadline - performance.now())
        function take(): void {
          clearTimeout(timer)
          resolve()
        }
        waiting.add(take)
      })
    },

    waiting: () => waiting.size,

    release(): void {
      const [next] = waiting
      if (!next) {
        free++
        return
      }
      waiting.delete(next)
      next()
    },
  }
}
