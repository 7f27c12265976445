import type { ChunkRef, Digest, Manifest, MapSlot } from '@ingest/core'

/** A row of a query of `map_slots`. */
export interface SlotRow {
  frozen_at: number | null
  complete_head: string | null
  complete_chunks: Buffer | null
  published_at: number | null
  pending_head: string | null
  pending_chunks: Buffer | null
  touched_at: number | null
  /** A bit string with a 1 for each chunk of the pending manifest that is not stored; null if none is missing. */
  missing: string | null
}

export function toSlot(row: SlotRow): MapSlot {
  const complete = toManifest(row.complete_head, row.complete_chunks)
  const pending = toManifest(row.pending_head, row.pending_chunks)
  return {
    ...(row.frozen_at !== null && { frozenAt: row.frozen_at }),
    ...(complete && { complete: { manifest: complete, publishedAt: row.published_at as number } }),
    ...(pending && {
      pending: {
        manifest: pending,
        touchedAt: row.touched_at as number,
        missing: missingOf(pending, row.missing),
      },
    }),
  }
}

function missingOf({ chunks }: Manifest, flags: string | null): Digest[] {
  if (flags === null) return []
  return [...new Set(chunks.filter((_, i) => flags[i] === '1').map(({ digest }) => digest))]
}

function toManifest(head: string | null, chunks: Buffer | null): Manifest | undefined {
  if (head === null || chunks === null) return undefined
  return { ...JSON.parse(head), chunks: decodeChunks(chunks) }
}

/** The manifest without its chunk list. */
export function manifestHead({ contentType, size, digest }: Manifest): string {
  return JSON.stringify({ contentType, size, digest })
}

/** A chunk of a manifest is stored as its digest and its size, 4 bytes big-endian. */
const digestBytes = 32
const chunkRefBytes = digestBytes + 4
const digestPrefix = 'sha256:'

export function encodeChunks(chunks: readonly ChunkRef[]): Buffer {
  const bytes = Buffer.allocUnsafe(chunks.length * chunkRefBytes)
  for (const [i, { digest, size }] of chunks.entries()) {
    bytes.write(digest.slice(digestPrefix.length), i * chunkRefBytes, 'hex')
    bytes.writeUInt32BE(size, i * chunkRefBytes + digestBytes)
  }
  return bytes
}

function decodeChunks(bytes: Buffer): ChunkRef[] {
  return Array.from({ length: bytes.length / chunkRefBytes }, (_, i) => {
    const at = i * chunkRefBytes
    return {
      digest: `${digestPrefix}${bytes.toString('hex', at, at + digestBytes)}`,
      size: bytes.readUInt32BE(at + digestBytes),
    }
  })
}

export function encodeDigest(digest: Digest): Buffer {
  return Buffer.from(digest.slice(digestPrefix.length), 'hex')
}
