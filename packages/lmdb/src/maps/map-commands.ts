import type { CompleteMap, Digest, Manifest, MapId } from '@ingest/core'
import { chunkRefBytes, decodeChunks, digestBytes } from '../chunks/chunk-encoding.ts'
import type { ChunkTables, WrittenChunk } from '../chunks/chunk-tables.ts'
import type { Projects } from '../entries/projects.ts'
import { asBuffer } from '../threads/run-command.ts'
import type { FoundMap } from './map-reader.ts'
import type { MapTables } from './map-tables.ts'

/**
 * A manifest to write, its chunks encoded by {@link encodeChunks}; a manifest that the slot already has is referred to
 * by its role.
 */
export type ManifestToPut = (Omit<Manifest, 'chunks'> & { chunks: Uint8Array }) | 'complete' | 'pending'

/** The number of chunks that a command writes or looks up. */
export function chunkCount({ complete, pending, digests, uploads }: PutMap): number {
  const chunksOf = (manifest: ManifestToPut | undefined) =>
    typeof manifest === 'object' ? manifest.chunks.length / chunkRefBytes : 0
  const written = chunksOf(complete?.manifest) + chunksOf(pending?.manifest) + uploads.size
  return Math.max(written, digests.length / digestBytes)
}

/** Writes the decision about a map if the slot and the presence of chunks have not changed since. */
export interface PutMap {
  type: 'putMap'
  projectId: string
  /**
   * {@link Projects.numberToBe} when it was decided: the first map of a project creates the project with this number.
   */
  project: number
  map: MapId
  /** {@link FoundMap.version} of the slot. */
  version: string
  /** The chunks whose presence the decision depends on, encoded by {@link encodeDigests}. */
  digests: Uint8Array
  /** For each of `digests`, 1 if it was stored. */
  present: Uint8Array
  complete: (Omit<CompleteMap, 'manifest'> & { manifest: ManifestToPut }) | undefined
  pending: { manifest: ManifestToPut; touchedAt: number } | undefined
  uploads: ReadonlyMap<Digest, WrittenChunk>
  /** {@link ChunkTables.collections} when the uploads' blobs were known to exist. */
  collections: number
}

export interface PutChunk {
  type: 'putChunk'
  project: number
  digest: Digest
  chunk: WrittenChunk
  /** Like {@link PutMap.collections}. */
  collections: number
  receivedAt: number
}

/** The commands of the writer for maps. */
export interface MapCommands {
  /** `unreleased`: the map is written, and `releaseChunks` has more to do. */
  putMap: { command: PutMap; result: 'written' | 'unreleased' | 'changed' }
  /** `changed` when the chunk's blob may be deleted. */
  putChunk: { command: PutChunk; result: 'stored' | 'existing' | 'undeclared' | 'changed' }
  /** Like {@link MapTables.releaseChunks}. */
  releaseChunks: { command: { type: 'releaseChunks' }; result: boolean }
  /**
   * Updates some of the pending manifests that miss a stored chunk; a chunk that was deleted meanwhile stays missing.
   */
  resolveAwaited: {
    command: { type: 'resolveAwaited'; project: number; digest: Digest; touchedAt: number | undefined }
    result: true
  }
  /** Drops the pending manifest of a map if it is expired, or void. Returns the same as `releaseChunks`. */
  sweepMap: { command: { type: 'sweepMap'; project: number; map: MapId; touchedBefore: number }; result: boolean }
}

export interface MapCommandTables {
  maps: MapTables
  projects: Projects
}

/** Only inside a write transaction. */
export function putMap({ maps, projects }: MapCommandTables, command: PutMap): 'written' | 'unreleased' | 'changed' {
  const { projectId, project, map, version, digests, present, collections } = command
  const uploads = new Map([...command.uploads].map(([digest, chunk]) => [digest, received(chunk)]))
  const found = maps.find(project, map)
  const isCurrent =
    projects.numberToBe(projectId) === project &&
    found.version === version &&
    maps.chunks.areStored(project, asBuffer(digests)).equals(present) &&
    canName(maps.chunks, [...uploads.values()], collections)
  if (!isCurrent) return 'changed'
  const { complete, pending } = command
  const contents = {
    ...(complete && { complete: { ...complete, manifest: manifestIn(found, complete.manifest) } }),
    ...(pending && { pending: { ...pending, manifest: manifestIn(found, pending.manifest) } }),
  }
  projects.numberFor(projectId)
  maps.put(project, map, found, contents, { uploads })
  return maps.releaseChunks() ? 'unreleased' : 'written'
}

/** Only inside a write transaction. */
export function putChunk(maps: MapTables, command: PutChunk): 'stored' | 'existing' | 'undeclared' | 'changed' {
  const { project, digest, collections, receivedAt } = command
  const chunk = received(command.chunk)
  return canName(maps.chunks, [chunk], collections) ? maps.putChunk(project, digest, chunk, receivedAt) : 'changed'
}

/** Whether blobs that existed at this count of collections still exist. */
function canName(chunks: ChunkTables, written: readonly WrittenChunk[], collections: number): boolean {
  if (written.length === 0) return true
  return chunks.collections() === collections && !written.some(({ blobKey }) => chunks.isGarbage(blobKey))
}

function manifestIn({ contents }: FoundMap, manifest: ManifestToPut): Manifest {
  if (typeof manifest !== 'string') return { ...manifest, chunks: decodeChunks(asBuffer(manifest.chunks)) }
  return (contents[manifest] as { manifest: Manifest }).manifest
}

function received({ blobKey, size }: WrittenChunk): WrittenChunk {
  return { blobKey: asBuffer(blobKey), size }
}
