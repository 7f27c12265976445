import type { MapId } from '@ingest/core'

/** The name of a map in keys; no build id has a U+0000 in it. */
export function encodeMapName({ placeId, buildId }: MapId): Buffer {
  return Buffer.from(`${buildId}\0${placeId}`)
}

export function parseMapName(name: Buffer): MapId {
  const end = name.indexOf(0)
  return { placeId: name.toString('utf8', end + 1), buildId: name.toString('utf8', 0, end) }
}

/** The part of a pending manifest that changes while its chunks are uploaded. */
export interface PendingRow {
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

export function encodePending({ touchedAt, missing, bytes: declared, name }: PendingRow): Buffer {
  const bytes = Buffer.allocUnsafe(pendingHeaderBytes + name.length)
  bytes.writeDoubleLE(touchedAt, 0)
  bytes.writeUInt32LE(missing, 8)
  bytes.writeDoubleLE(declared, 12)
  bytes.set(name, pendingHeaderBytes)
  return bytes
}

export function decodePending(bytes: Buffer): PendingRow {
  return {
    touchedAt: bytes.readDoubleLE(0),
    missing: bytes.readUInt32LE(8),
    bytes: bytes.readDoubleLE(12),
    name: bytes.subarray(pendingHeaderBytes),
  }
}
