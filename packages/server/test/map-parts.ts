import { createHash } from 'node:crypto'
import type { EmbeddedIngest, Manifest } from '@ingest/core'
import { headersOf, projectId } from './batches.ts'
import type { Sent } from './edges.ts'

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** So many bytes that look like nothing, the same each time; other ones for another seed. */
export function bytesOf(size: number, seed = 'a'): Buffer {
  const blocks = Array.from({ length: Math.ceil(size / 32) }, (_, i) =>
    createHash('sha256').update(`${seed}${i}`).digest(),
  )
  return Buffer.concat(blocks, size)
}

export function manifestOf(chunks: readonly Uint8Array[], contentType = 'application/octet-stream'): Manifest {
  const whole = Buffer.concat(chunks)
  const refs = chunks.map((bytes) => ({ digest: digestOf(bytes), size: bytes.length }))
  return { contentType, size: whole.length, digest: digestOf(whole), chunks: refs }
}

/** Publishes a map of these chunks, whole, and gives its bytes. */
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
export function put(path: string, key: string, value: unknown, headers: Sent['headers'] = []): Sent {
  return { method: 'PUT', path, headers: [...headersOf(key), ...headers], body: JSON.stringify(value) }
}

/** A GET, or another method without a body. */
export function get(path: string, key: string, headers: Sent['headers'] = [], method = 'GET'): Sent {
  return { method, path, headers: [...headersOf(key).slice(0, 2), ...headers] }
}
