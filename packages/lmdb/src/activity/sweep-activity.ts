import { setTimeout as sleep } from 'node:timers/promises'
import type { ActivityStoreOptions } from './activity-store.ts'

/** The most rows that one transaction deletes. */
const expiryRowsMax = 256

/** Deletes the rows that began before a time, in short steps. */
export async function sweepActivity(options: ActivityStoreOptions, before: number): Promise<void> {
  const { activity, writer, slicedReads, checkOpen } = options
  const { readSnapshot, nextStep } = slicedReads('')
  for (let from: Buffer | undefined = Buffer.alloc(0); from; ) {
    await nextStep()
    checkOpen()
    const start: Buffer = from
    const { keys, next } = readSnapshot(() => activity.expired(before, start, expiryRowsMax))
    const startedAt = performance.now()
    if (keys.length > 0) await writer.run({ type: 'removeActivity', keys })
    // lets other writers commit for as long as a step takes
    if (next) await sleep(performance.now() - startedAt)
    from = next
  }
}
