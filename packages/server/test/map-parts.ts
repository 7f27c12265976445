import { createHash } from 'node:crypto'
import type { EmbeddedIngest, Manifest } from '@ingest/core'
import type { Sent } from './edges.ts'
import { headersOf, projectId } from './test-ingest.ts'

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** Incompressible bytes, the same for each seed. */
export function bytesOf(size: number, seed = 'a'): Buffer {
  return size === 0 ? Buffer.alloc(0) : createHash('shake256', { outputLength: size }).update(seed).digest()
}

export function manifestOf(chunks: readonly Uint8Array[], contentType = 'application/octet-stream'): Manifest {
  const whole = Buffer.concat(chunks)
  const refs = chunks.map((bytes) => ({ digest: digestOf(bytes), size: bytes.length }))
  return { contentType, size: whole.length, digest: digestOf(whole), chunks: refs }
}

/** Publishes a complete map of these chunks and returns its bytes. */
export async function publish(
  ingest: EmbeddedIngest,
  chunks: readonly Uint8Array[],
  id = { placeId: 'p', buildId: 'b' },
): Promise<Buffer> {
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
  await ingest.project(projectId).putChunks(chunks.map((bytes) => ({ digest: digestOf(bytes), bytes })))
  return Buffer.concat(chunks)
}

/** Stores an event that references the build. */
export async function freeze(ingest: EmbeddedIngest, buildId = 'b'): Promise<void> {
  await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: `freezes ${buildId}`, buildId }] })
}

/** A PUT of an object as JSON. */
export function put(path: string, key: string, value: unknown, headers: Record<string, string> = {}): Sent {
  return { method: 'PUT', path, headers: [...headersOf(key), ...Object.entries(headers)], body: JSON.stringify(value) }
}

/** A GET, or another method without a body. */
export function get(path: string, key: string, headers: Record<string, string> = {}, method = 'GET'): Sent {
  return { method, path, headers: [...headersOf(key).slice(0, 2), ...Object.entries(headers)] }
}
