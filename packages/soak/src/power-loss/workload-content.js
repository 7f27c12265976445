import { createHash } from 'node:crypto'

/**
 * Describes what the workload stored; the content is derived from the description.
 *
 * @typedef {{ kind: 'events', projectId: string, build: string, player: number, ids: string[] }
 *   | { kind: 'key', projectId: string }
 *   | { kind: 'map', build: string, seed: number, size: number, digest: string }
 *   | { kind: 'erase', projectId: string, player?: number }
 *   | { kind: 'copy', to: string, from?: string }
 *   | { kind: 'spool', projectId: string, ids: string[] }
 *   | { kind: 'output', version: number }} Promised
 */

/** Small, so that little data makes many runs and merges of the id index. */
export const entriesPerFlush = 200
const chunkBytes = 40_000

/** @param {{ projectId: string, build: string, player: number, id: string, padBytes?: number }} event */
export function eventOf({ projectId, build, player, id, padBytes = 20 }) {
  return { projectId, eventId: id, buildId: build, playerId: player, pad: id.repeat(padBytes).slice(0, padBytes) }
}

/** @param {{ seed: number, size: number }} map */
export function bytesOfMap({ seed, size }) {
  const bytes = Buffer.alloc(size)
  for (let at = 0; at < size; at += 4) bytes.writeUInt32LE((at * 2654435761 + seed) >>> 0, at)
  return bytes
}

/** @param {{ seed: number, size: number }} map */
export function manifestOf(map) {
  const bytes = bytesOfMap(map)
  const chunks = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const part = bytes.subarray(at, at + chunkBytes)
    chunks.push({ digest: digestOf(part), bytes: part })
  }
  const manifest = {
    contentType: 'application/octet-stream',
    size: bytes.length,
    digest: digestOf(bytes),
    chunks: chunks.map(({ digest, bytes }) => ({ digest, size: bytes.length })),
  }
  return { manifest, chunks }
}

/** @param {number} version */
export const bytesOfOutput = (version) => Buffer.from(`version ${version}\n`.repeat(5000))

/** @param {Uint8Array} bytes */
const digestOf = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
