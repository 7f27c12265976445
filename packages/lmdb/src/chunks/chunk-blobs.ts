import { randomBytes } from 'node:crypto'
import { type ChunkUpload, type Digest, IngestError } from '@ingest/core'
import { nextReadStep } from '@ingest/core/internal'
import type { Environment, Table } from '../environment/environment.ts'
import { stepRowsMax } from '../log/snapshot-reader.ts'
import { createCommitState } from '../threads/commit-state.ts'
import { blobSlot, type ExitGuards } from '../threads/exit-guard.ts'
import { type RequestClient, startRequestClient } from '../threads/request-client.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import { type BlobRequest, sizeOf } from './blob-writer.ts'
import {
  type BlobKey,
  type ChunkCommands,
  type ChunkTables,
  chunkKey,
  uploadBytes,
  type WrittenChunk,
} from './chunk-tables.ts'
import { createSharedMemory } from './shared-memory.ts'

/**
 * The blobs of chunks, in a separate environment, so that uploads do not delay commits of events. Only the chunk tables
 * say which blobs are used: a blob is written before it is named, and marked as garbage before it is deleted. So a
 * crash leaves only blobs that {@link collectOrphans} finds.
 *
 * Each upload has its own key, so deleting a blob never deletes one that was just written.
 */
export interface ChunkBlobs {
  /** Writes a blob for each chunk; resolves when they are durable. */
  write(project: number, uploads: readonly ChunkUpload[]): Promise<Map<Digest, WrittenChunk>>
  /** A copy of the bytes of a blob. */
  read(blobKey: BlobKey): Buffer | undefined
  exists(blobKey: BlobKey): boolean
  /** Deletes garbage; resolves when all is deleted, or when the rest cannot be deleted yet. */
  collectGarbage(): Promise<void>
  /**
   * Deletes blobs that no chunk uses: those that a crash has left, and those in flight, which are written again. Checks
   * a bounded number of blobs; the next call, in any process, continues after them.
   */
  collectOrphans(): Promise<void>
  /** Refuses new requests; resolves when those in flight are settled. */
  close(): Promise<void>
}

export interface ChunkBlobsOptions {
  /** The environment of the blobs. It belongs to the store of the tables: blobs that these do not name are deleted. */
  environment: Environment
  /** The table of blobs. */
  blobs: Table
  directory: string
  tables: ChunkTables
  /** The writer of the environment of the tables. */
  writer: CommandRunner<ChunkCommands> & Pick<RequestClient<never>, 'fail'>
  readSnapshot<T>(read: () => T): T
  guards: ExitGuards
  timeoutMs: number
}

/** The most blobs that one transaction deletes. */
const garbageMax = 256
/** The most batches of blobs that one search for orphans checks. */
const orphanBatchesMax = 256

export function openChunkBlobs(options: ChunkBlobsOptions): ChunkBlobs {
  const { environment, blobs, directory, tables, writer, readSnapshot, guards, timeoutMs } = options
  let thread: Promise<RequestClient<BlobRequest>> | undefined
  const memory = createSharedMemory()
  let isClosed = false
  let collectAgain = false
  let collecting: Promise<void> | undefined

  /** The thread that writes blobs, started with the first request. */
  function blobWriter(): Promise<RequestClient<BlobRequest>> {
    if (!thread && isClosed) return Promise.reject(new IngestError('store-closed', 'The store is closed.'))
    thread ??= startRequestClient<BlobRequest>({
      module: new URL('./blob-worker.js', import.meta.url),
      data: { directory, fileIds: environment.fileIds, guards, commitState: createCommitState() },
      slot: blobSlot,
      onFatal: writer.fail,
      lockHolder: environment.lockHolder,
      newestTransaction: environment.newestTransaction,
      timeoutMs,
    }).catch((error) => {
      thread = undefined
      if (error.code === 'store-failed') writer.fail(error)
      throw error
    })
    return thread
  }

  async function collectAll(): Promise<void> {
    try {
      while (collectAgain) {
        collectAgain = false
        for (;;) {
          const blobKeys = readSnapshot(() => tables.garbage(garbageMax))
          if (blobKeys.length === 0) break
          await (await blobWriter()).request({ type: 'remove', blobKeys }, 0)
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
    async write(project, uploads) {
      const { request: send } = await blobWriter()
      const rows = uploads.map(({ digest, bytes }) => ({
        blobKey: Buffer.concat([chunkKey(project, digest), randomBytes(uploadBytes)]),
        bytes: memory.copy(bytes),
      }))
      const request = { type: 'write', rows } as const
      await send(request, sizeOf(request))
      for (const { bytes } of rows) memory.release(bytes)
      return new Map(
        uploads.map(({ digest, bytes }, i) => [digest, { blobKey: rows[i]?.blobKey as BlobKey, size: bytes.length }]),
      )
    },

    read(blobKey) {
      environment.root.resetReadTxn()
      return blobs.getBinary(blobKey)
    },

    exists(blobKey) {
      environment.root.resetReadTxn()
      return blobs.doesExist(blobKey)
    },

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

    async close() {
      isClosed = true
      await thread?.then(
        ({ close }) => close(),
        () => {},
      )
    },
  }
}
