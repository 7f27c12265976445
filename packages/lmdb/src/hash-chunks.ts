import { type ChunkRef, type Digest, type HashedChunks, IngestError } from '@ingest/core'
import type { ChunkBlobs } from './chunks/chunk-blobs.ts'
import type { SnapshotReader } from './read-snapshot.ts'
import type { BlobKey, ChunkTables, WrittenChunk } from './tables/chunks.ts'

/** The most bytes of chunks that one request hashes: writes of blobs that arrive meanwhile wait for it. */
const groupBytesMax = 2 * 2 ** 20
/** The most chunks whose blobs are looked up in one turn of the event loop. */
const groupChunksMax = 256

export interface HashChunksContext {
  chunks: ChunkTables
  blobs: ChunkBlobs
  reader: SnapshotReader
}

/** `MapStore.hashChunks`, on the thread that writes blobs, in groups of about {@link groupBytesMax}. */
export async function hashChunks(
  { chunks, blobs, reader }: HashChunksContext,
  projectId: string,
  refs: readonly ChunkRef[],
  signal: AbortSignal,
): Promise<HashedChunks | undefined> {
  const find = (digest: Digest): WrittenChunk | undefined =>
    reader.readProject<WrittenChunk | undefined>(projectId, undefined, (project) => chunks.find(project, digest))
  const hash = blobs.openHash()
  let missed: BlobKey | undefined
  try {
    for (let done = 0; done < refs.length; ) {
      signal.throwIfAborted()
      const group: BlobKey[] = []
      for (let bytes = 0; bytes < groupBytesMax && group.length < groupChunksMax; ) {
        const ref = refs[done + group.length]
        if (!ref) break
        const found = find(ref.digest)
        if (!found) return undefined
        if (found.size !== ref.size) return { index: done + group.length, size: found.size }
        bytes += found.size
        group.push(found.blobKey)
      }
      const hashed = await hash.update(group)
      done += hashed
      if (hashed === group.length) continue
      // a chunk may be deleted after its blob was looked up, but then it has another blob now, or none
      const blobKey = group[hashed] as BlobKey
      if (missed?.equals(blobKey)) throw chunkDamaged(refs[done]?.digest as Digest)
      missed = blobKey
    }
    signal.throwIfAborted()
    return { digest: await hash.digest() }
  } finally {
    hash.close()
  }
}

export function chunkDamaged(digest: Digest): IngestError {
  return new IngestError('store-damaged', `The bytes of chunk ${digest} are lost or damaged: restore a backup.`)
}
