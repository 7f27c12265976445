import {
  type CompleteMap,
  checkPendingBytes,
  contentsAfterExpiry,
  contentsAfterFreeze,
  type Digest,
  digestsOf,
  isExpired,
  isPinned,
  type Manifest,
  type MapContents,
  type MapId,
  manifestBytes,
  type NewChunk,
  type PendingManifest,
} from '@ingest/core'

import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { type ChunkTables, openChunkTables, type WrittenChunk } from './chunks.ts'
import { createMapReader, type FoundMap, type MapReader, type MapRow, mapKeyOffset } from './map-reader.ts'
import { encodeChunks, encodeMapName, parseMapName } from './map-records.ts'
import { openPendingTables, type PendingTables } from './pending-manifests.ts'

export interface PutOptions {
  /** Chunks whose blobs are durable; those that are not needed become garbage. */
  uploads?: ReadonlyMap<Digest, WrittenChunk>
  /** Refuses contents that raise the pending bytes above this. */
  pendingBytesMax?: number | undefined
}

/** The maps and their manifests. Projects are identified by number. */
export interface MapTables extends MapReader {
  chunks: ChunkTables
  pending: PendingTables
  // only inside a write transaction
  /** @throws {IngestError} `map-quota-exceeded`, with nothing written */
  put(project: number, id: MapId, found: FoundMap, contents: MapContents, options?: PutOptions): void
  /**
   * Stores a chunk that a manifest names; otherwise its blob becomes garbage.
   *
   * @throws {IngestError} `map-quota-exceeded`, with nothing written
   */
  putChunk(
    project: number,
    digest: Digest,
    chunk: WrittenChunk,
    options: Pick<NewChunk, 'receivedAt' | 'pendingBytesMax'>,
  ): 'stored' | 'existing' | 'undeclared'
  /** Applies the freeze of a build, which is recorded already, to its maps. */
  freeze(project: number, buildId: string): void
  /** Drops a pending map if it is expired. */
  expire(project: number, id: MapId, touchedBefore: number): void
}

/** A manifest of a map; `number` is undefined until it is written. */
interface NumberedManifest {
  number: number | undefined
  manifest: Manifest
}

/** @param onGarbage called when a blob is marked as garbage */
export function openMapTables(table: (name: string) => Rows, onGarbage = () => {}): MapTables {
  /** project, build, place → row */
  const maps = table('maps')
  /** number → chunks */
  const manifests = table('manifests')
  const chunks = openChunkTables(table, onGarbage)
  const pending = openPendingTables(table)
  const reader = createMapReader(table, chunks, pending)

  function addManifest(project: number, manifest: Manifest): number {
    const [last] = [...manifests.getKeys({ reverse: true, limit: 1 })]
    const number = (last ? readSequence(last) : 0) + 1
    manifests.put(sequenceKey(number), encodeChunks(manifest.chunks))
    for (const digest of digestsOf(manifest)) chunks.addName(project, number, digest)
    return number
  }

  function removeManifest(project: number, { number, manifest }: Required<NumberedManifest>): void {
    manifests.remove(sequenceKey(number as number))
    for (const digest of digestsOf(manifest)) chunks.removeName(project, number as number, digest)
  }

  /** How much the pending bytes change when a map has other manifests. */
  function pendingBytesChange(
    project: number,
    before: MapState,
    after: MapState,
    uploads: ReadonlyMap<Digest, WrittenChunk>,
  ): number {
    const own = before.manifests.flatMap(({ number }) => number ?? [])
    const named = digestSet(after.manifests)
    const kept = digestSet(after.keeper ? [after.keeper] : [])
    let change = manifestBytesOf(after.counted) - manifestBytesOf(before.counted)
    for (const digest of new Set([...digestSet(before.manifests), ...named, ...uploads.keys()])) {
      const storedBytes = chunks.sizeOf(project, digest)
      if (storedBytes !== undefined && !chunks.isKept(project, digest)) change -= storedBytes
      const bytes = storedBytes ?? uploads.get(digest)?.size
      if (bytes === undefined || kept.has(digest) || chunks.isKept(project, digest, own)) continue
      if (named.has(digest) || chunks.isNamed(project, digest, own)) change += bytes
    }
    return change
  }

  function putUploads(project: number, uploads: ReadonlyMap<Digest, WrittenChunk>): void {
    for (const [digest, chunk] of uploads) {
      if (!chunks.isNamed(project, digest) || chunks.isStored(project, digest)) chunks.markGarbage(chunk.blobKey)
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
      pending.add(project, number, id, contents.touchedAt, digests.filter(isMissing))
      return
    }
    pending.touch(project, number, contents.touchedAt)
    // after a crash between storing its last chunk and recording that
    if (pending.get(project, number).missing > 0 && !digests.some(isMissing)) pending.setReady(project, number, digests)
  }

  function changeKeeper(
    project: number,
    before: NumberedManifest | undefined,
    after: NumberedManifest | undefined,
  ): void {
    if (before?.number === after?.number) return
    for (const digest of after ? digestsOf(after.manifest) : [])
      chunks.addKeeper(project, after?.number as number, digest)
    for (const digest of before ? digestsOf(before.manifest) : []) {
      chunks.removeKeeper(project, before?.number as number, digest)
    }
  }

  function put(
    project: number,
    id: MapId,
    found: FoundMap,
    contents: MapContents,
    { uploads = new Map(), pendingBytesMax }: PutOptions = {},
  ): void {
    const before = stateOf(found.contents, found.frozenAt, found.row)
    const isOld = ({ manifest }: NumberedManifest) => before.manifests.some((old) => old.manifest === manifest)
    const after = stateOf(contents, found.frozenAt, {})
    // a manifest that stays keeps its number
    for (const each of after.manifests) each.number = numberIn(before, each.manifest)
    const isUnchanged = after.manifests.length === before.manifests.length && after.manifests.every(isOld)
    const sameKeeper = after.keeper?.manifest === before.keeper?.manifest
    const change =
      isUnchanged && sameKeeper && uploads.size === 0 ? 0 : pendingBytesChange(project, before, after, uploads)
    const bytes = pending.pendingBytes(project)
    checkPendingBytes(bytes, bytes + change, pendingBytesMax)
    for (const each of after.manifests) each.number ??= addManifest(project, each.manifest)
    putUploads(project, uploads)
    const row = rowOf(contents, after)
    if (found.row.pending && found.contents.pending && found.row.pending.number !== row.pending?.number) {
      pending.remove(project, found.row.pending.number, digestsOf(found.contents.pending.manifest))
    }
    if (row.pending && contents.pending) putPending(project, id, found.row, row.pending.number, contents.pending)
    changeKeeper(project, before.keeper, after.keeper)
    for (const old of before.manifests) {
      if (!after.manifests.some(({ number }) => number === old.number)) removeManifest(project, old)
    }
    pending.addPendingBytes(project, change)
    const key = projectKey(project, encodeMapName(id))
    if (row.complete || row.pending) maps.put(key, Buffer.from(JSON.stringify(row)))
    else maps.remove(key)
  }

  /** Takes the pending manifest of a build that freezes out of the pending bytes. */
  function pin(project: number, number: number, manifest: Manifest): void {
    let change = -manifestBytes(manifest)
    for (const digest of digestsOf(manifest)) {
      if (!chunks.isKept(project, digest)) change -= chunks.sizeOf(project, digest) ?? 0
      chunks.addKeeper(project, number, digest)
    }
    pending.addPendingBytes(project, change)
  }

  return {
    ...reader,
    chunks,
    pending,
    put,

    putChunk(project, digest, chunk, { receivedAt, pendingBytesMax }) {
      const isStored = chunks.isStored(project, digest)
      if (isStored || !chunks.isNamed(project, digest)) {
        chunks.markGarbage(chunk.blobKey)
        return isStored ? 'existing' : 'undeclared'
      }
      const before = pending.pendingBytes(project)
      const change = chunks.isKept(project, digest) ? 0 : chunk.size
      checkPendingBytes(before, before + change, pendingBytesMax)
      chunks.put(project, digest, chunk)
      pending.addPendingBytes(project, change)
      pending.resolveAwaited(project, digest, receivedAt)
      return 'stored'
    },

    freeze(project, buildId) {
      for (const key of [...reader.keysOf(project, buildId)]) {
        const id = parseMapName(key.subarray(mapKeyOffset))
        const found = reader.find(project, id)
        const contents = contentsAfterFreeze(found.contents)
        if (contents !== found.contents && found.contents.pending) put(project, id, found, contents)
        else if (isPinned({ ...contents, frozenAt: found.frozenAt }) && contents.pending) {
          pin(project, found.row.pending?.number as number, contents.pending.manifest)
        }
      }
    },

    expire(project, id, touchedBefore) {
      const found = reader.find(project, id)
      if (!isExpired({ pending: found.contents.pending, frozenAt: found.frozenAt }, touchedBefore)) return
      put(project, id, found, contentsAfterExpiry(found.contents))
    },
  }
}

/** What a map adds to the tables of chunks and to the pending bytes. */
interface MapState {
  manifests: NumberedManifest[]
  /** The manifest whose chunks are not pending: the complete one, else the pinned one. */
  keeper: NumberedManifest | undefined
  /** The pending manifest, unless it is pinned. */
  counted: Manifest | undefined
}

function stateOf(contents: MapContents, frozenAt: number | undefined, row: MapRow): MapState {
  const complete = contents.complete && { number: row.complete?.number, manifest: contents.complete.manifest }
  const pending = contents.pending && { number: row.pending?.number, manifest: contents.pending.manifest }
  const pinned = isPinned({ ...contents, frozenAt }) ? pending : undefined
  return {
    manifests: [complete, pending].filter((each) => each !== undefined),
    keeper: complete ?? pinned,
    counted: pinned ? undefined : pending?.manifest,
  }
}

function numberIn({ manifests }: MapState, manifest: Manifest): number | undefined {
  return manifests.find((each) => each.manifest === manifest)?.number
}

function rowOf({ complete, pending }: MapContents, state: MapState): MapRow {
  const numbered = ({ manifest }: CompleteMap | PendingManifest) => {
    const { contentType, size, digest } = manifest
    return { contentType, size, digest, number: numberIn(state, manifest) as number }
  }
  return {
    ...(complete && { complete: { ...numbered(complete), publishedAt: complete.publishedAt } }),
    ...(pending && { pending: numbered(pending) }),
  }
}

function manifestBytesOf(manifest: Manifest | undefined): number {
  return manifest ? manifestBytes(manifest) : 0
}

function digestSet(manifests: readonly NumberedManifest[]): Set<Digest> {
  return new Set(manifests.flatMap(({ manifest }) => manifest.chunks.map(({ digest }) => digest)))
}
