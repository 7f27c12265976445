import { randomBytes } from 'node:crypto'
import { type ChunkUpload, type Digest, IngestError } from '@ingest/core'
import { createCommitState } from '../threads/commit-state.ts'
import { blobSlot, type ExitGuards } from '../threads/exit-guard.ts'
import { type RequestClient, startRequestClient } from '../threads/request-client.ts'
import { type BlobGarbage, type BlobGarbageOptions, createBlobGarbage } from './blob-garbage.ts'
import { type BlobRequest, sizeOf } from './blob-writer.ts'
import { type BlobKey, chunkKey, uploadBytes, type WrittenChunk } from './chunk-tables.ts'
import { createSharedMemory } from './shared-memory.ts'

/*
 * The chunks of maps: maps of one project share those of equal digest. The bytes are in an environment of their own, so
 * that uploads do not delay commits of events.
 *
 * - chunk: a row that gives a digest its blob, in the environment of the events (`chunk-tables.ts`)
 * - blob: the bytes of one upload of a chunk. Each upload has its own key, so deleting a blob never deletes one that was
 *   just written.
 * - reference: the row by which a manifest names a chunk; a chunk without references is deleted
 * - garbage: blobs that no chunk uses. A blob is marked before it is deleted (`blob-garbage.ts`).
 * - orphan: a blob without a chunk and without a mark: its upload is in flight, or a crash interrupted it
 *
 * Only the chunk tables say which blobs are used: a blob is durable before its chunk is stored. Start with `write` in
 * `openChunkBlobs` below. `maps/chunk-uploads.ts` decides which chunks are needed.
 */

/** The blobs of chunks. */
export interface ChunkBlobs extends BlobGarbage {
  /** Writes a blob for each chunk; resolves when they are durable. */
  write(project: number, uploads: readonly ChunkUpload[]): Promise<Map<Digest, WrittenChunk>>
  /** A copy of the bytes of a blob. */
  read(blobKey: BlobKey): Buffer | undefined
  exists(blobKey: BlobKey): boolean
  /** Refuses new requests; resolves when those in flight are settled. */
  close(): Promise<void>
}

export interface ChunkBlobsOptions extends BlobGarbageOptions {
  directory: string
  writer: BlobGarbageOptions['writer'] & Pick<RequestClient<never>, 'fail'>
  guards: ExitGuards
  timeoutMs: number
}

export function openChunkBlobs(options: ChunkBlobsOptions): ChunkBlobs {
  const { environment, blobs, directory, writer, guards, timeoutMs } = options
  let thread: Promise<RequestClient<BlobRequest>> | undefined
  const memory = createSharedMemory()
  let isClosed = false

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

    ...createBlobGarbage(options, async (blobKeys) => {
      await (await blobWriter()).request({ type: 'remove', blobKeys }, 0)
    }),

    async close() {
      isClosed = true
      await thread?.then(
        ({ close }) => close(),
        () => {},
      )
    },
  }
}
