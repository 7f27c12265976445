import { type Digest, IngestError, type NewChunk } from '@ingest/core'
import type { ChunkBlobs } from '../chunks/chunk-blobs.ts'
import type { ChunkCommands, WrittenChunk } from '../chunks/chunk-tables.ts'
import type { SnapshotReader } from '../log/snapshot-reader.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import type { MapCommands } from './map-commands.ts'
import type { MapTables } from './map-tables.ts'

export interface ChunkUploadsOptions {
  maps: MapTables
  blobs: ChunkBlobs
  writer: CommandRunner<MapCommands & ChunkCommands>
  reader: SnapshotReader
}

/**
 * Stores chunks in two steps: the blob in its own environment, then its row in the map tables. A blob without a row
 * becomes garbage.
 */
export interface ChunkUploads {
  /** Like {@link ChunkBlobs.write}. */
  write: ChunkBlobs['write']
  /** The collection count at which all of these blobs exist; undefined if one is deleted, or about to be. */
  collectionsWith(written: ReadonlyMap<Digest, WrittenChunk>): number | undefined
  /** Marks the blobs of chunks that were not stored as garbage; the next opening finds those that cannot be marked. */
  markUnused(written: ReadonlyMap<Digest, WrittenChunk>): Promise<void>
  /**
   * Updates all pending manifests that miss a stored chunk, a bounded number in each transaction.
   *
   * @throws {IngestError} only with an unknown outcome, as the chunk is already stored
   */
  resolveAwaited(project: number, digest: Digest, touchedAt?: number): Promise<void>
  /** @throws {IngestError} the errors of the writer */
  putChunk(project: number, chunk: NewChunk): Promise<'stored' | 'existing' | 'undeclared'>
}

export function createChunkUploads({ maps, blobs, writer, reader }: ChunkUploadsOptions): ChunkUploads {
  const { readSnapshot } = reader

  function collectionsWith(written: ReadonlyMap<Digest, WrittenChunk>): number | undefined {
    const keys = [...written.values()].map(({ blobKey }) => blobKey)
    // the count comes first: blobs that exist at a count are deleted only at a later one
    const [collections, isGarbage] = readSnapshot(() => [
      maps.chunks.collections(),
      keys.some((blobKey) => maps.chunks.isGarbage(blobKey)),
    ])
    return isGarbage || !keys.every(blobs.exists) ? undefined : collections
  }

  async function markUnused(written: ReadonlyMap<Digest, WrittenChunk>): Promise<void> {
    if (written.size === 0) return
    const blobKeys = [...written.values()].map(({ blobKey }) => blobKey)
    await writer.run({ type: 'markGarbage', blobKeys }).catch(() => {})
  }

  async function resolveAwaited(project: number, digest: Digest, touchedAt?: number): Promise<void> {
    const isAwaited = () => maps.pending.isAwaited(project, digest) && maps.chunks.isStored(project, digest)
    try {
      while (readSnapshot(isAwaited)) await writer.run({ type: 'resolveAwaited', project, digest, touchedAt })
    } catch (error) {
      throw toPartError(error)
    }
  }

  async function putChunk(project: number, chunk: NewChunk) {
    const { digest, receivedAt } = chunk
    for (;;) {
      const existing = readSnapshot(() => {
        if (maps.chunks.isStored(project, digest)) return 'existing'
        return maps.isDeclared(project, digest, chunk.bytes.length) ? undefined : 'undeclared'
      })
      if (existing) return existing
      const written = await blobs.write(project, [chunk])
      const collections = collectionsWith(written)
      if (collections === undefined) continue
      const own = written.get(digest) as WrittenChunk
      const command = { type: 'putChunk', project, digest, chunk: own, collections, receivedAt } as const
      const outcome = await writer.run(command).catch(async (error) => {
        await markUnused(written)
        throw error
      })
      if (outcome !== 'changed') return outcome
      await markUnused(written)
    }
  }

  return { write: blobs.write, collectionsWith, markUnused, resolveAwaited, putChunk }
}

/** The error of an operation that is partly done. */
function toPartError(error: unknown): unknown {
  if (!(error instanceof IngestError) || error.isOutcomeUnknown) return error
  return new IngestError('store-unavailable', `The chunk is stored, but not all that it completes: ${error.message}`, {
    cause: error,
    retryAfterSeconds: error.retryAfterSeconds ?? 1,
  })
}
