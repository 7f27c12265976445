import { crc32 } from 'node:zlib'
import {
  type CompleteMap,
  type Digest,
  type Manifest,
  type MapContents,
  type MapEntry,
  type MapId,
  type MapSelection,
  type MapSlot,
  manifestBytes,
  type NewChunk,
  type PendingManifest,
} from '@ingest/core'
import {
  checkPendingBytes,
  contentsAfterExpiry,
  contentsAfterFreeze,
  digestsOf,
  isExpired,
  isPinned,
} from '@ingest/core/internal'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { readFrozenAt } from '../log/event-log.ts'
import { type ChunkTables, openChunkTables, type WrittenChunk } from './chunks.ts'
import { decodeChunks, encodeChunks, mapIdOf, nameOf } from './map-records.ts'
import { openPendingTables, type PendingTables } from './pending-manifests.ts'

export interface PutOptions {
  /** Chunks whose blobs are durable; those that are not needed become garbage. */
  uploads?: ReadonlyMap<Digest, WrittenChunk>
  /** Refuses contents that raise the pending bytes above this. */
  pendingBytesMax?: number | undefined
}

/** A map as it is stored. */
export interface FoundMap {
  row: MapRow
  contents: MapContents
  frozenAt: number | undefined
  /** Differs between any two states of the slot. */
  version: string
}

/** The maps and their manifests. Projects are identified by number. */
export interface MapTables {
  chunks: ChunkTables
  pending: PendingTables
  find(project: number, id: MapId): FoundMap
  /** The slot of the contract. */
  slot(project: number, found: FoundMap): MapSlot
  /** The selected maps among the next `keysMax` maps; `last` is the last of these if more may follow. */
  list(project: number, selection: MapSelection, keysMax: number): { entries: MapEntry[]; last?: MapId }
  present(project: number, digests: readonly Digest[]): Set<Digest>
  /** The pending maps that name a chunk and miss none, at most `limit`. */
  readyWith(project: number, digest: Digest, limit: number): MapId[]
  /** The expired pending maps of all projects. */
  expired(touchedBefore: number): { project: number; id: MapId }[]

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

/** A map without the chunks of its manifests; `number` identifies a manifest. */
interface MapRow {
  complete?: Omit<Manifest, 'chunks'> & { number: number; publishedAt: number }
  pending?: Omit<Manifest, 'chunks'> & { number: number }
}

/** A manifest of a map; `number` is undefined until it is written. */
interface NumberedManifest {
  number: number | undefined
  manifest: Manifest
}

/** The version of a slot with nothing in it. */
export const versionOfNone = [undefined, undefined].join()

const projectBytes = 4
/** The most ready manifests that are searched for those that name a chunk. */
const readySearchedMax = 1_000

/** @param onGarbage called when a blob is marked as garbage */
export function openMapTables(table: (name: string) => Rows, onGarbage = () => {}): MapTables {
  /** project, build, place → row */
  const maps = table('maps')
  /** number → chunks */
  const manifests = table('manifests')
  const freezes = table('freezes')
  const chunks = openChunkTables(table, onGarbage)
  const pending = openPendingTables(table)

  function find(project: number, id: MapId): FoundMap {
    const bytes = maps.getBinary(projectKey(project, nameOf(id)))
    const row: MapRow = bytes ? JSON.parse(bytes.toString()) : {}
    const frozenAt = readFrozenAt(freezes, project, id.buildId)
    const contents: MapContents = {}
    const version: unknown[] = [bytes?.toString(), frozenAt]
    if (row.complete) {
      const chunkBytes = manifests.getBinary(sequenceKey(row.complete.number)) as Buffer
      const { publishedAt } = row.complete
      contents.complete = { manifest: manifestOf(row.complete, chunkBytes), publishedAt }
      version.push(crc32(chunkBytes))
    }
    if (row.pending) {
      const chunkBytes = manifests.getBinary(sequenceKey(row.pending.number)) as Buffer
      const { touchedAt, missing } = pending.get(project, row.pending.number)
      contents.pending = { manifest: manifestOf(row.pending, chunkBytes), touchedAt }
      version.push(crc32(chunkBytes), touchedAt, missing)
    }
    return { row, contents, frozenAt, version: version.join() }
  }

  function slot(project: number, { row, contents, frozenAt }: FoundMap): MapSlot {
    return {
      ...(frozenAt !== undefined && { frozenAt }),
      ...(contents.complete && { complete: contents.complete }),
      ...(contents.pending && {
        pending: { ...contents.pending, missing: missingOf(project, contents.pending, row.pending?.number as number) },
      }),
    }
  }

  function missingOf(project: number, { manifest }: PendingManifest, number: number): Digest[] {
    if (pending.get(project, number).missing === 0) return []
    return digestsOf(manifest).filter((digest) => !chunks.isStored(project, digest))
  }

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
    const key = projectKey(project, nameOf(id))
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

  /** The keys of the maps of a project, or of one of its builds. */
  function keysOf(project: number, buildId?: string, after?: MapId) {
    const start = projectKey(project, buildId === undefined ? undefined : nameOf({ buildId, placeId: '' }))
    const end = buildId === undefined ? projectKey(project + 1) : projectKey(project, Buffer.from(`${buildId}\u0001`))
    const behind = after && Buffer.concat([projectKey(project, nameOf(after)), Buffer.of(0)])
    return maps.getKeys({ start: behind && behind.compare(start) > 0 ? behind : start, end })
  }

  return {
    chunks,
    pending,
    find,
    slot,
    put,

    list(project, { placeId, buildId, after, limit }, keysMax) {
      const ids: MapId[] = []
      let last: MapId | undefined
      let left = keysMax
      for (const key of keysOf(project, buildId, after)) {
        const id = mapIdOf(key.subarray(projectBytes))
        left--
        if (left === 0) last = id
        if (placeId === undefined || id.placeId === placeId) ids.push(id)
        if (left === 0 || ids.length === limit) break
      }
      return { entries: ids.map((id) => ({ ...id, slot: slot(project, find(project, id)) })), ...(last && { last }) }
    },

    present(project, digests) {
      return new Set(digests.filter((digest) => chunks.isStored(project, digest)))
    },

    readyWith(project, digest, limit) {
      const ready = pending.ready(project, readySearchedMax)
      const named = ready.filter(({ number }) => chunks.names(project, number, digest))
      return named.slice(0, limit).map(({ id }) => id)
    },

    expired(touchedBefore) {
      const isOpen = ({ project, id }: { project: number; id: MapId }) =>
        readFrozenAt(freezes, project, id.buildId) === undefined
      return pending.touchedBefore(touchedBefore).filter(isOpen)
    },

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
      for (const key of [...keysOf(project, buildId)]) {
        const id = mapIdOf(key.subarray(projectBytes))
        const found = find(project, id)
        const contents = contentsAfterFreeze(found.contents)
        if (contents !== found.contents && found.contents.pending) put(project, id, found, contents)
        else if (isPinned({ ...contents, frozenAt: found.frozenAt }) && contents.pending) {
          pin(project, found.row.pending?.number as number, contents.pending.manifest)
        }
      }
    },

    expire(project, id, touchedBefore) {
      const found = find(project, id)
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

function manifestOf({ contentType, size, digest }: NonNullable<MapRow['pending']>, chunkBytes: Buffer): Manifest {
  return { contentType, size, digest, chunks: decodeChunks(chunkBytes) }
}

function manifestBytesOf(manifest: Manifest | undefined): number {
  return manifest ? manifestBytes(manifest) : 0
}

function digestSet(manifests: readonly NumberedManifest[]): Set<Digest> {
  return new Set(manifests.flatMap(({ manifest }) => manifest.chunks.map(({ digest }) => digest)))
}
