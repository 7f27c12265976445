import { open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment, Table } from './environment/environment.ts'
import { type Overwritten, oldestSnapshot, stillRead } from './pages/free-pages.ts'
import type { SnapshotReader } from './read-snapshot.ts'
import { readUnpurged } from './writer/erasures.ts'
import type { Writer } from './writer/writer-client.ts'

export interface PurgeOptions {
  environment: Environment
  /** Of the data file. */
  path: string
  writer: Writer
  reader: SnapshotReader
  unpurged: Table
  /** @throws {IngestError} `store-closed` */
  checkOpen(): void
}

/** How long a purge waits for readers of earlier snapshots. */
const readersTimeoutMs = 10_000
const pollMs = 20

/**
 * Overwrites what erased events, and expired activity with text of events, left in the data file, which is in free pages:
 * an erasure leaves no old bytes in pages that are in use. Writes only pages that hold something, and nothing behind the end
 * of the file. Nothing is done if nothing was erased since the last purge. One that was interrupted is completed by the next
 * one.
 *
 * @throws {IngestError} `overloaded` if a read of an earlier snapshot does not end
 */
export async function purge(options: PurgeOptions): Promise<void> {
  const { path, writer, reader, unpurged, checkOpen } = options
  const before = reader.readSnapshot(() => readUnpurged(unpurged))
  if (before.events === 0 && before.activity === 0) return
  await writer.erasure({ type: 'beginPurge' })
  const transaction = await readersBehind(options)
  // Windows syncs only what may be written
  const file = await open(path, 'r+')
  try {
    for (let from: number | undefined = 0; from !== undefined; ) {
      checkOpen()
      const startedAt = performance.now()
      const { next, pages }: Overwritten = await writer.erasure({
        type: 'overwriteFreePages',
        before: transaction,
        from,
      })
      if (pages > 0) await file.datasync()
      // other writers wait for a step
      if (next !== undefined) await sleep(performance.now() - startedAt)
      from = next
    }
  } finally {
    await file.close()
  }
  await writer.erasure({ type: 'endPurge', unpurged: before })
}

/** Resolves with the last commit, when no process reads an earlier snapshot: it would keep the pages of erased events. */
async function readersBehind({ environment, checkOpen }: PurgeOptions): Promise<number> {
  const { root } = environment
  const until = performance.now() + readersTimeoutMs
  root.resetReadTxn()
  const { lastTxnId } = root.getStats() as { lastTxnId: number }
  while (oldestSnapshot(environment) < lastTxnId) {
    checkOpen()
    if (performance.now() > until) throw stillRead()
    await sleep(pollMs)
  }
  return lastTxnId
}
