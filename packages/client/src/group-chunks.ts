import type { ChunkUpload } from '@ingest/core'

/** The most chunks of one request. */
export const groupChunksMax = 64
/** The most bytes of the chunks of one request: in base64 and with their digests, they fit into 4 MiB. */
export const groupBytesMax = 3_000_000

/** Chunks that go in one request, and the place of the first of them among all. */
export interface ChunkGroup {
  first: number
  group: ChunkUpload[]
}

/** Chunks in their order, cut into requests. */
export function groupChunks(chunks: readonly ChunkUpload[]): ChunkGroup[] {
  const groups: ChunkGroup[] = []
  let current: ChunkGroup | undefined
  let bytes = 0
  for (const [index, chunk] of chunks.entries()) {
    bytes += chunk.bytes.length
    if (!current || current.group.length === groupChunksMax || bytes > groupBytesMax) {
      current = { first: index, group: [] }
      groups.push(current)
      bytes = chunk.bytes.length
    }
    current.group.push(chunk)
  }
  return groups
}
