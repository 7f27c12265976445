import type { ChunkRef, Digest, MapId } from '@ingest/core'

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

/** The name of a map in keys; no build id has a U+0000 in it. */
export function encodeMapName({ placeId, buildId }: MapId): Buffer {
  return Buffer.from(`${buildId}\0${placeId}`)
}

export function parseMapName(name: Buffer): MapId {
  const end = name.indexOf(0)
  return { placeId: name.toString('utf8', end + 1), buildId: name.toString('utf8', 0, end) }
}

/** The part of a pending manifest that changes while its chunks are uploaded. */
export interface PendingRecord {
  /** Milliseconds since 1970. */
  touchedAt: number
  /** How many distinct chunks are missing. */
  missing: number
  /** `declaredBytes` of the manifest. */
  bytes: number
  /** The name of its map. */
  name: Buffer
}

/** When it was touched, 8 bytes, how many are missing, 4, and its declared bytes, 8, little-endian, then the name. */
export const pendingHeaderBytes = 20

export function encodePending({ touchedAt, missing, bytes: declared, name }: PendingRecord): Buffer {
  const bytes = Buffer.allocUnsafe(pendingHeaderBytes + name.length)
  bytes.writeDoubleLE(touchedAt, 0)
  bytes.writeUInt32LE(missing, 8)
  bytes.writeDoubleLE(declared, 12)
  bytes.set(name, pendingHeaderBytes)
  return bytes
}

export function decodePending(bytes: Buffer): PendingRecord {
  return {
    touchedAt: bytes.readDoubleLE(0),
    missing: bytes.readUInt32LE(8),
    bytes: bytes.readDoubleLE(12),
    name: bytes.subarray(pendingHeaderBytes),
  }
}

/** A stored chunk. */
export interface StoredRecord {
  /** Identifies the upload that wrote the bytes. */
  upload: Buffer
  /** In bytes. */
  size: number
}

/** The upload, then the size, 4 bytes little-endian. */
const sizeBytes = 4

export function encodeStored({ upload, size }: StoredRecord): Buffer {
  const bytes = Buffer.allocUnsafe(upload.length + sizeBytes)
  bytes.set(upload, 0)
  bytes.writeUInt32LE(size, upload.length)
  return bytes
}

export function decodeStored(bytes: Buffer): StoredRecord {
  const end = bytes.length - sizeBytes
  return { upload: bytes.subarray(0, end), size: bytes.readUInt32LE(end) }
}
