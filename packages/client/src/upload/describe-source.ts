import { createHash, webcrypto } from 'node:crypto'
import { type ChunkRef, type Digest, IngestError, type Manifest } from '@ingest/core'
import { chunkContent, cutBytes } from './chunk-content.ts'
import type { OpenedSource } from './map-source.ts'

/** A chunk, and where it is found first. */
export interface Place extends ChunkRef {
  start: number
}

type Readable = Pick<OpenedSource, 'bytes' | 'readAt'>

/** How many chunks are hashed at once, by threads of Node that hold a copy of each. */
const hashedAtOnce = 8

/** The manifest of a source, and its distinct chunks. Reads it once; `onChunk` is told how far it is. */
export async function describeSource(
  source: Readable,
  contentType: string,
  onChunk: (bytesDone: number, chunksDone: number) => void,
): Promise<{ manifest: Manifest; places: Map<Digest, Place> }> {
  const whole = createHash('sha256')
  const hashing: Promise<Place>[] = []
  const chunks: ChunkRef[] = []
  const places = new Map<Digest, Place>()
  let size = 0

  async function takeFirst(): Promise<void> {
    const { digest, size, start } = (await hashing.shift()) as Place
    const chunk = { digest, size }
    chunks.push(chunk)
    if (!places.has(digest)) places.set(digest, { ...chunk, start })
    onChunk(start + size, chunks.length)
  }

  for await (const bytes of source.bytes ? cutBytes(source.bytes) : chunkContent(source.readAt)) {
    hashing.push(hashChunk(bytes, size))
    whole.update(bytes)
    size += bytes.length
    if (hashing.length === hashedAtOnce) await takeFirst()
  }
  while (hashing.length > 0) await takeFirst()
  return { manifest: { contentType, size, digest: `sha256:${whole.digest('hex')}`, chunks }, places }
}

async function hashChunk(bytes: Uint8Array, start: number): Promise<Place> {
  const hash = await webcrypto.subtle.digest('SHA-256', bytes)
  return { digest: `sha256:${Buffer.from(hash).toString('hex')}`, size: bytes.length, start }
}

/**
 * The bytes of a chunk, read again. Whether they are what they were, whoever stores them finds out.
 *
 * @throws {IngestError} `source-changed`
 */
export async function readPlace(source: Readable, { size, start }: Place): Promise<Uint8Array> {
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
  return new IngestError('source-changed', 'The map changed while it was being uploaded: upload it again.')
}
