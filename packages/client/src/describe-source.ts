import { createHash } from 'node:crypto'
import { type ChunkRef, type Digest, digestOf, IngestError, type Manifest } from '@ingest/core'
import { chunkContent, type ReadAt } from './chunk-content.ts'

/** A chunk, and where it is found first. */
export interface Place extends ChunkRef {
  start: number
}

/** The manifest of a source, and its distinct chunks. Reads it once; `onChunk` is told how far it is. */
export async function describeSource(
  readAt: ReadAt,
  contentType: string,
  onChunk: (bytesDone: number, chunksDone: number) => void,
): Promise<{ manifest: Manifest; places: Map<Digest, Place> }> {
  const whole = createHash('sha256')
  const chunks: ChunkRef[] = []
  const places = new Map<Digest, Place>()
  let size = 0
  for await (const bytes of chunkContent(readAt)) {
    whole.update(bytes)
    const chunk = { digest: digestOf(bytes), size: bytes.length }
    chunks.push(chunk)
    if (!places.has(chunk.digest)) places.set(chunk.digest, { ...chunk, start: size })
    size += bytes.length
    onChunk(size, chunks.length)
  }
  return { manifest: { contentType, size, digest: `sha256:${whole.digest('hex')}`, chunks }, places }
}

/**
 * The bytes of a chunk, read again.
 *
 * @throws {IngestError} `source-changed`
 */
export async function readPlace(readAt: ReadAt, { digest, size, start }: Place): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafeSlow(size)
  for (let filled = 0; filled < size; ) {
    const count = await readAt(bytes.subarray(filled), start + filled)
    if (count === 0) throw sourceChanged()
    filled += count
  }
  if (digestOf(bytes) !== digest) throw sourceChanged()
  return bytes
}

function sourceChanged(): IngestError {
  return new IngestError('source-changed', 'The map changed while it was being uploaded: upload it again.')
}
