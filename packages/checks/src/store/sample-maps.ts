import assert from 'node:assert/strict'
import {
  type AppendBatch,
  type ChunkUpload,
  type Digest,
  digestOf,
  type Manifest,
  type MapChunks,
  type MapContents,
  type MapId,
  type MapKey,
  type MapSelection,
  type MapSlot,
  type NewChunk,
  type PendingManifest,
  type PendingTotals,
  type PutChunkOutcome,
  pendingBytesOf,
  type Store,
} from '@ingest/core'
import { batchOf, event } from './sample-events.ts'

export function key(id: Partial<MapKey> = {}): MapKey {
  return { projectId: 'p', placeId: '1', buildId: 'b', ...id }
}

export function mapIdOf({ placeId, buildId }: MapId): MapId {
  return { placeId, buildId }
}

export function chunk(text: string): ChunkUpload {
  const bytes = Buffer.from(text)
  return { digest: digestOf(bytes), bytes }
}

export function newChunk(text: string, receivedAt = 1_000) {
  return { ...chunk(text), receivedAt }
}

export function digests(...texts: string[]): Digest[] {
  return texts.map((text) => chunk(text).digest)
}

export function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: chunk(text).digest, size: Buffer.byteLength(text) }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
}

export function pendingOf(...texts: string[]): PendingManifest {
  return { manifest: manifestOf(...texts), touchedAt: 1_000 }
}

/** A pending map as a store returns it. */
export function pendingMap(texts: string[], missing: string[]): NonNullable<MapSlot['pending']> {
  return { ...pendingOf(...texts), missing: digests(...missing) }
}

export function wholeOf(...texts: string[]): MapContents {
  return { complete: { manifest: manifestOf(...texts), publishedAt: 1_000 } }
}

export function uploadsOf(...texts: string[]): MapChunks {
  return { uploads: texts.map(chunk) }
}

/** Publishes a whole map with its chunks. */
export async function publish(store: Store, id: MapKey, ...texts: string[]): Promise<void> {
  await store.updateMap(id, uploadsOf(...new Set(texts)), () => ({ contents: wholeOf(...texts), result: 1 }))
}

/** Records a manifest as pending, and keeps the complete map if there is one. */
export async function record(store: Store, id: MapKey, ...texts: string[]): Promise<void> {
  await store.updateMap(id, {}, ({ complete }) => ({
    contents: { ...(complete && { complete }), pending: pendingOf(...texts) },
    result: 1,
  }))
}

/** Adds 1 to `publishedAt` of the complete map, decided on its value before. */
export async function countUpdate(store: Store, id: MapKey): Promise<void> {
  await store.updateMap(id, {}, ({ complete }) => {
    assert.ok(complete)
    return { contents: { complete: { ...complete, publishedAt: complete.publishedAt + 1 } }, result: 1 }
  })
}

/** Makes the pending map the complete one. */
export async function complete(store: Store, id: MapKey): Promise<void> {
  await store.updateMap(id, {}, ({ pending }) => {
    assert.ok(pending)
    return { contents: { complete: { manifest: pending.manifest, publishedAt: 1_000 } }, result: 1 }
  })
}

/** The pending totals of project `p`, computed from all of its maps. */
export async function recount(store: Store): Promise<PendingTotals> {
  const pending = (await store.maps('p', { limit: 1_000 })).filter(({ slot }) => slot.pending)
  return {
    maps: pending.length,
    bytes: pending.reduce((sum, { slot }) => sum + pendingBytesOf(slot, slot.frozenAt), 0),
  }
}

export async function list(store: Store, selection: Partial<MapSelection> = {}, projectId = 'p'): Promise<MapId[]> {
  return (await store.maps(projectId, { limit: 1_000, ...selection })).map(mapIdOf)
}

/** The places whose pending map misses no chunk. */
export async function readyPlaces(store: Store, projectId = 'p'): Promise<string[]> {
  const maps = await store.maps(projectId, { limit: 1_000 })
  return maps.filter(({ slot }) => slot.pending?.missing.length === 0).map(({ placeId }) => placeId)
}

/** The stored ones of these chunks. */
export async function present(store: Store, texts: string[], projectId = 'p'): Promise<string[]> {
  const stored = await store.updateMap(key({ projectId }), { digests: digests(...texts) }, (_, stored) => ({
    result: stored,
  }))
  return texts.filter((text) => stored.has(chunk(text).digest))
}

export async function chunkText(store: Store, text: string, projectId = 'p'): Promise<string | undefined> {
  const bytes = await store.readChunk(projectId, chunk(text).digest)
  return bytes && Buffer.from(bytes).toString()
}

export function eventBatch(eventId: string, buildId?: string, receivedAt = 1_000): AppendBatch {
  return batchOf([event(eventId, buildId === undefined ? {} : { buildId })], { receivedAt })
}

/** Stores a chunk, and returns only the outcome. */
export async function putChunk(store: Store, projectId: string, chunk: NewChunk): Promise<PutChunkOutcome['outcome']> {
  return (await store.putChunk(projectId, chunk)).outcome
}
