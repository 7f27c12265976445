import type { ChunkRef, Digest } from '@ingest/core'

/** A chunk of a manifest is its digest, 32 bytes, and its size, 4 bytes little-endian. */
export const digestBytes = 32
export const chunkRefBytes = digestBytes + 4

export function encodeChunks(chunks: readonly ChunkRef[]): Buffer {
  const bytes = Buffer.allocUnsafe(chunks.length * chunkRefBytes)
  for (const [i, { digest, size }] of chunks.entries()) {
    bytes.write(digest.slice('sha256:'.length), i * chunkRefBytes, 'hex')
    bytes.writeUInt32LE(size, i * chunkRefBytes + digestBytes)
  }
  return bytes
}

export function decodeChunks(bytes: Buffer): ChunkRef[] {
  return Array.from({ length: bytes.length / chunkRefBytes }, (_, i) => {
    const at = i * chunkRefBytes
    return {
      digest: `sha256:${bytes.toString('hex', at, at + digestBytes)}`,
      size: bytes.readUInt32LE(at + digestBytes),
    }
  })
}

/** Encodes digests one after another: a message copies them at once, without an allocation for each. */
export function encodeDigests(digests: readonly Digest[]): Buffer {
  const bytes = Buffer.allocUnsafeSlow(digests.length * digestBytes)
  for (const [i, digest] of digests.entries()) bytes.write(digest.slice('sha256:'.length), i * digestBytes, 'hex')
  return bytes
}

/** A stored chunk. */
export interface StoredRow {
  /** Identifies the upload that wrote the bytes. */
  upload: Buffer
  /** In bytes. */
  size: number
}

/** The upload, then the size, 4 bytes little-endian. */
const sizeBytes = 4

export function encodeStored({ upload, size }: StoredRow): Buffer {
  const bytes = Buffer.allocUnsafe(upload.length + sizeBytes)
  bytes.set(upload, 0)
  bytes.writeUInt32LE(size, upload.length)
  return bytes
}

export function decodeStored(bytes: Buffer): StoredRow {
  const end = bytes.length - sizeBytes
  return { upload: bytes.subarray(0, end), size: bytes.readUInt32LE(end) }
}
