import { nextReadStep } from '@ingest/core/internal'
import type { Environment, Table } from '../environment/environment.ts'
import { stepRowsMax } from '../log/snapshot-reader.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import type { BlobKey, ChunkCommands, ChunkTables } from './chunk-tables.ts'

/** Deletes blobs that no chunk uses. */
export interface BlobGarbage {
  /** Deletes garbage; resolves when all is deleted, or when the rest cannot be deleted yet. */
  collectGarbage(): Promise<void>
  /**
   * Deletes blobs that no chunk uses: those that a crash has left, and those of uploads in flight, which then write
   * them again. Checks a bounded number of blobs; the next call, in any process, continues after them.
   */
  collectOrphans(): Promise<void>
}

export interface BlobGarbageOptions {
  /** The environment of the blobs. It belongs to the store of the tables: blobs that these do not name are deleted. */
  environment: Environment
  /** The table of blobs. */
  blobs: Table
  tables: ChunkTables
  /** The writer of the environment of the tables. */
  writer: CommandRunner<ChunkCommands>
  readSnapshot<T>(read: () => T): T
}

/** The most blobs that one transaction deletes. */
const garbageMax = 256
/** The most batches of blobs that one search for orphans checks. */
const orphanBatchesMax = 256

/** @param remove deletes blobs; resolves when that is durable */
export function createBlobGarbage(
  { environment, blobs, tables, writer, readSnapshot }: BlobGarbageOptions,
  remove: (blobKeys: readonly BlobKey[]) => Promise<void>,
): BlobGarbage {
  let collectAgain = false
  let collecting: Promise<void> | undefined

  async function collectAll(): Promise<void> {
    try {
      while (collectAgain) {
        collectAgain = false
        for (;;) {
          const blobKeys = readSnapshot(() => tables.garbage(garbageMax))
          if (blobKeys.length === 0) break
          await remove(blobKeys)
          await writer.run({ type: 'collectGarbage', blobKeys })
        }
      }
    } catch {
      // the next opening collects the rest; the writers have reported the error
    }
  }

  function collectGarbage(): Promise<void> {
    collectAgain = true
    collecting ??= collectAll().finally(() => {
      collecting = undefined
      // garbage was reported after the last read
      if (collectAgain) return collectGarbage()
    })
    return collecting
  }

  function keysFrom(start: Buffer): BlobKey[] {
    return readSnapshot(() => {
      environment.root.resetReadTxn()
      return Array.from(blobs.getKeys({ start, limit: stepRowsMax }), (key) => Buffer.from(key))
    })
  }

  return {
    collectGarbage,

    async collectOrphans() {
      const from = readSnapshot(tables.orphansFrom)
      let next: Buffer | undefined = from
      for (let batches = 0; next && batches < orphanBatchesMax; batches++) {
        const blobKeys: BlobKey[] = keysFrom(next)
        const orphans = readSnapshot(() => blobKeys.filter((blobKey) => !tables.isUsed(blobKey)))
        if (orphans.length > 0) await writer.run({ type: 'markGarbage', blobKeys: orphans })
        const last = blobKeys.at(-1)
        next = last && Buffer.concat([last, Buffer.of(0)])
        await nextReadStep('')
      }
      if (next ?? from.length > 0) await writer.run({ type: 'saveOrphansFrom', from: next })
      if (readSnapshot(() => tables.garbage(1)).length > 0) await collectGarbage()
    },
  }
}
