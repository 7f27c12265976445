import { createHash, webcrypto } from 'node:crypto'
import { type ChunkRef, type Digest, IngestError, type Manifest } from '@ingest/core'
import { chunkContent, cutBytes } from './chunk-content.ts'
import type { OpenedSource } from './map-source.ts'

/** A chunk, and the offset of its first occurrence. */
export interface ChunkLocation extends ChunkRef {
  start: number
}

type Readable = Pick<OpenedSource, 'bytes' | 'readAt'>

/** The most chunks that Node's thread pool hashes at once; each is a copy. */
const hashConcurrency = 8

/** Reads a source once, and returns its manifest and distinct chunks. */
export async function describeSource(
  source: Readable,
  contentType: string,
  onChunk: (bytesDone: number, chunksDone: number) => void,
): Promise<{ manifest: Manifest; locations: Map<Digest, ChunkLocation> }> {
  const whole = createHash('sha256')
  const hashing: Promise<ChunkLocation>[] = []
  const chunks: ChunkRef[] = []
  const locations = new Map<Digest, ChunkLocation>()
  let size = 0

  async function takeFirst(): Promise<void> {
    const { digest, size, start } = (await hashing.shift()) as ChunkLocation
    const chunk = { digest, size }
    chunks.push(chunk)
    if (!locations.has(digest)) locations.set(digest, { ...chunk, start })
    onChunk(start + size, chunks.length)
  }

  for await (const bytes of source.bytes ? cutBytes(source.bytes) : chunkContent(source.readAt)) {
    hashing.push(hashChunk(bytes, size))
    whole.update(bytes)
    size += bytes.length
    if (hashing.length === hashConcurrency) await takeFirst()
  }
  while (hashing.length > 0) await takeFirst()
  return { manifest: { contentType, size, digest: `sha256:${whole.digest('hex')}`, chunks }, locations }
}

async function hashChunk(bytes: Uint8Array, start: number): Promise<ChunkLocation> {
  const hash = await webcrypto.subtle.digest('SHA-256', bytes)
  return { digest: `sha256:${Buffer.from(hash).toString('hex')}`, size: bytes.length, start }
}

/**
 * Reads the bytes of a chunk again. The server checks their digest.
 *
 * @throws {IngestError} `source-changed`
 */
export async function readChunk(source: Readable, { size, start }: ChunkLocation): Promise<Uint8Array> {
  if (source.bytes) return source.bytes.subarray(start, start + size)
  const bytes = Buffer.allocUnsafeSlow(size)
  for (let filled = 0; filled < size; ) {
    const count = await source.readAt(bytes.subarray(filled), start + filled)
    if (count === 0) throw sourceChanged()
    filled += count
  }
  return bytes
}

export function sourceChanged(): IngestError {
  return new IngestError('source-changed', 'The map changed during the upload: upload it again.')
}
