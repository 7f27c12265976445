import {
  type CompleteMap,
  contentsAfterExpiry,
  type Digest,
  digestsOf,
  isExpired,
  isPendingVoid,
  type Manifest,
  type MapContents,
  type MapId,
  type PendingManifest,
} from '@ingest/core'
import { type ChunkTables, openChunkTables, type WrittenChunk } from '../chunks/chunk-tables.ts'
import type { Rows } from '../environment/environment.ts'
import { projectKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { addOpenBuild, hasMaps, removeOpenBuild } from './builds.ts'
import { noManifestCache } from './manifest-cache.ts'
import { type ManifestTables, openManifestTables } from './manifest-tables.ts'
import { encodeMapName } from './map-encoding.ts'
import { createMapReader, type FoundMap, type MapReader, type MapRow } from './map-reader.ts'
import { openPendingTables, type PendingTables } from './pending-manifests.ts'

/*
 * Maps and their manifests. The bytes of chunks are in `chunks/`, which never delays a commit of events.
 *
 * - slot: the complete and the pending map of a place and a build, one row of the table `maps`
 * - manifest: the list of chunks of a map, under a number of its own; a slot names it by this number
 * - pending manifest: one that misses chunks, or is not verified yet (`pending-manifests.ts`)
 * - void: a pending manifest whose build froze; readers leave it out, a sweep deletes it
 * - detached manifest: one that no slot names; its chunks are released in bounded transactions (`manifest-tables.ts`)
 * - reference: the row by which a manifest names a chunk; a chunk without references becomes garbage
 * - version of a slot: a text that differs between any two states; a decision on a snapshot is written only if it is
 *   the same
 *
 * `map-store.ts` serves the contract: it reads a snapshot, decides, and sends a command (`map-commands.ts`) to the
 * writer, which checks the version and writes through `put` below. A chunk takes two commits: its blob, then its row
 * (`chunk-uploads.ts`).
 */

export interface PutOptions {
  /** Chunks whose blobs are durable; those that are not needed become garbage. */
  uploads?: ReadonlyMap<Digest, WrittenChunk>
}

/** The maps and their manifests. Projects are identified by number. */
export interface MapTables extends MapReader {
  chunks: ChunkTables
  pending: PendingTables
  // only inside a write transaction
  /**
   * Replaces the contents of a map. A manifest that it no longer has is only detached: {@link releaseChunks} follows.
   */
  put(project: number, id: MapId, found: FoundMap, contents: MapContents, options?: PutOptions): void
  /** Stores a chunk that a manifest names, with at least its size; otherwise its blob becomes garbage. */
  putChunk(
    project: number,
    digest: Digest,
    chunk: WrittenChunk,
    receivedAt: number,
  ): 'stored' | 'existing' | 'undeclared'
  /** Drops the pending manifest of a map if it is expired, or void. */
  sweep(project: number, id: MapId, touchedBefore: number): void
  releaseChunks: ManifestTables['release']
}

/** @param onGarbage called when a blob is marked as garbage */
export function openMapTables(
  table: (name: TableName) => Rows,
  onGarbage = () => {},
  cache = noManifestCache,
): MapTables {
  const maps = table('maps')
  const newest = table('newest-builds')
  const chunks = openChunkTables(table, onGarbage)
  const pending = openPendingTables(table)
  const manifests = openManifestTables(table, chunks, pending)
  const reader = createMapReader(table, chunks, pending, cache)

  function putUploads(project: number, uploads: ReadonlyMap<Digest, WrittenChunk>): void {
    for (const [digest, chunk] of uploads) {
      if (!chunks.isReferenced(project, digest) || chunks.isStored(project, digest)) chunks.markGarbage(chunk.blobKey)
      else {
        chunks.put(project, digest, chunk)
        pending.resolveAwaited(project, digest)
      }
    }
  }

  function putPending(project: number, id: MapId, before: MapRow, number: number, contents: PendingManifest): void {
    const digests = digestsOf(contents.manifest)
    const isMissing = (digest: Digest) => !chunks.isStored(project, digest)
    if (number !== before.pending?.number) {
      pending.add(project, number, id, contents, digests.filter(isMissing))
      return
    }
    pending.touch(project, number, contents.touchedAt)
    // after a crash between storing its last chunk and recording that
    if (pending.get(project, number).missing > 0 && !digests.some(isMissing)) pending.setReady(project, number, digests)
  }

  function put(
    project: number,
    id: MapId,
    { row: before, contents: old, frozenAt }: FoundMap,
    contents: MapContents,
    { uploads = new Map() }: PutOptions = {},
  ): void {
    /** A manifest that stays keeps its number. */
    function numberOf(manifest: Manifest): number {
      if (manifest === old.complete?.manifest) return before.complete?.number as number
      if (manifest === old.pending?.manifest) return before.pending?.number as number
      return manifests.add(project, manifest)
    }

    const row = rowOf(contents, numberOf)
    putUploads(project, uploads)
    if (before.pending && before.pending.number !== row.pending?.number) {
      const { number } = before.pending
      // completed before it was recorded that its last chunk is stored
      const isUnrecorded = number === row.complete?.number && pending.get(project, number).missing > 0
      if (isUnrecorded && old.pending) pending.removeMissing(project, number, digestsOf(old.pending.manifest))
      pending.remove(project, number)
    }
    if (row.pending && contents.pending) putPending(project, id, before, row.pending.number, contents.pending)
    const numbers = [row.complete?.number, row.pending?.number]
    for (const manifest of [before.complete, before.pending]) {
      if (manifest && !numbers.includes(manifest.number)) manifests.detach(project, manifest.number)
    }
    const key = projectKey(project, encodeMapName(id))
    const isKept = row.complete || row.pending
    if (isKept) maps.put(key, Buffer.from(JSON.stringify(row)))
    else maps.remove(key)
    if (frozenAt !== undefined) return
    if (isKept) addOpenBuild(newest, project, id.buildId)
    else if (!hasMaps(maps, project, id.buildId)) removeOpenBuild(newest, project, id.buildId)
  }

  return {
    ...reader,
    chunks,
    pending,
    releaseChunks: manifests.release,
    put,

    putChunk(project, digest, chunk, receivedAt) {
      const isStored = chunks.isStored(project, digest)
      if (isStored || !reader.isDeclared(project, digest, chunk.size)) {
        chunks.markGarbage(chunk.blobKey)
        return isStored ? 'existing' : 'undeclared'
      }
      chunks.put(project, digest, chunk)
      pending.resolveAwaited(project, digest, receivedAt)
      return 'stored'
    },

    sweep(project, id, touchedBefore) {
      const found = reader.find(project, id)
      const { row, contents, frozenAt } = found
      if (isPendingVoid(row, frozenAt)) put(project, id, found, contents)
      else if (isExpired({ pending: contents.pending, frozenAt }, touchedBefore)) {
        put(project, id, found, contentsAfterExpiry(contents))
      }
    },
  }
}

function rowOf({ complete, pending }: MapContents, numberOf: (manifest: Manifest) => number): MapRow {
  const numbered = ({ manifest }: CompleteMap | PendingManifest) => {
    const { contentType, size, digest } = manifest
    return { contentType, size, digest, number: numberOf(manifest) }
  }
  return {
    ...(complete && { complete: { ...numbered(complete), publishedAt: complete.publishedAt } }),
    ...(pending && { pending: numbered(pending) }),
  }
}
