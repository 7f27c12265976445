import {
  type Digest,
  digestOf,
  digestsOf,
  IngestError,
  type Manifest,
  type MapChunks,
  type MapContents,
  type MapDecision,
  type MapEntry,
  type MapId,
  type MapKey,
  type MapSlot,
  type MapStore,
  readyMapsMax,
  type UpdatedSlot,
} from '@ingest/core'
import { createKeyedMutex, nextReadStep } from '@ingest/core/internal'
import type { ChunkBlobs } from '../chunks/chunk-blobs.ts'
import { digestBytes, encodeChunks, encodeDigests } from '../chunks/chunk-encoding.ts'
import type { BlobKey, ChunkCommands, WrittenChunk } from '../chunks/chunk-tables.ts'
import type { Rows } from '../environment/environment.ts'
import type { TableName } from '../environment/schema.ts'
import { type SlicedReads, type SnapshotReader, stepRowsMax } from '../log/snapshot-reader.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import { listBuilds } from './builds.ts'
import { type ChunkUploads, createChunkUploads } from './chunk-uploads.ts'
import type { MapCommands, PutMap } from './map-commands.ts'
import { type FoundMap, versionOfNone } from './map-reader.ts'
import type { MapTables } from './map-tables.ts'
import { releaseChunks } from './sweep.ts'

export interface MapStoreOptions {
  maps: MapTables
  blobs: ChunkBlobs
  writer: CommandRunner<MapCommands & ChunkCommands>
  reader: SnapshotReader
  table(name: TableName): Rows
  slicedReads(projectId: string): SlicedReads
}

const noMap: FoundMap = { row: {}, contents: {}, frozenAt: undefined, version: versionOfNone }
const noUploads: ReadonlyMap<Digest, WrittenChunk> = new Map()

export function createMapStore({ maps, blobs, writer, reader, table, slicedReads }: MapStoreOptions): MapStore {
  const { readSnapshot, readProject, numberOf } = reader
  const inTurn = createKeyedMutex()
  const uploads = createChunkUploads({ maps, blobs, writer, reader })

  /** Looks up chunks in steps, and resolves in a step that has time for more. */
  async function areStored(projectId: string, encoded: Buffer): Promise<Buffer> {
    const stored = Buffer.alloc(encoded.length / digestBytes)
    const isLarge = stored.length > stepRowsMax
    for (let at = 0; at < stored.length; at += stepRowsMax) {
      if (isLarge) await nextReadStep(projectId)
      const part = encoded.subarray(at * digestBytes, (at + stepRowsMax) * digestBytes)
      readProject<unknown>(projectId, undefined, (project) => maps.chunks.areStored(project, part).copy(stored, at))
    }
    if (isLarge) await nextReadStep(projectId)
    return stored
  }

  async function readSlot(projectId: string, id: MapId): Promise<MapSlot> {
    const found = readProject(projectId, noMap, (project) => maps.find(project, id))
    const { frozenAt, contents } = found
    const { complete, pending } = contents
    return {
      ...(frozenAt !== undefined && { frozenAt }),
      ...(complete && { complete }),
      ...(pending && { pending: { ...pending, missing: await readMissing(projectId, found, pending.manifest) } }),
    }
  }

  async function readMissing(projectId: string, found: FoundMap, manifest: Manifest): Promise<readonly Digest[]> {
    if (found.missing?.digests) return found.missing.digests
    const digests = digestsOf(manifest)
    const stored = await areStored(projectId, encodeDigests(digests))
    const missing = digests.filter((_, i) => stored[i] === 0)
    maps.noteMissing(found, missing)
    return missing
  }

  /** The entries of the maps that still exist. */
  async function readEntries(projectId: string, ids: readonly MapId[]): Promise<MapEntry[]> {
    const entries: MapEntry[] = []
    let chunks = 0
    for (const id of ids) {
      const slot = await readSlot(projectId, id)
      if (slot.complete || slot.pending) entries.push({ ...id, slot })
      chunks += (slot.complete?.manifest.chunks.length ?? 0) + (slot.pending?.manifest.chunks.length ?? 0)
      if (chunks < stepRowsMax) continue
      chunks = 0
      await nextReadStep(projectId)
    }
    return entries
  }

  return {
    async map({ projectId, ...id }) {
      // decoding a large manifest and listing its missing chunks takes milliseconds
      await nextReadStep(projectId)
      return readSlot(projectId, id)
    },

    async maps(projectId, { limit, ...selection }) {
      const entries: MapEntry[] = []
      for (let after = selection.after; ; ) {
        const part = { ...selection, ...(after && { after }), limit: limit - entries.length }
        const none: ReturnType<MapTables['list']> = { ids: [] }
        const page = readProject(projectId, none, (project) => maps.list(project, part, stepRowsMax))
        entries.push(...(await readEntries(projectId, page.ids)))
        if (!page.last || entries.length === limit) return entries
        after = page.last
        await nextReadStep(projectId)
      }
    },

    async builds(projectId, selection) {
      const project = numberOf(projectId)
      return project === undefined ? { builds: [] } : listBuilds(table, slicedReads(projectId), project, selection)
    },

    updateMap(key, chunks, decide) {
      const { projectId, placeId, buildId } = key
      const context = { maps, writer, reader, uploads, areStored }
      return inTurn(JSON.stringify([projectId, placeId, buildId]), () => updateMap(context, key, chunks, decide))
    },

    async putChunk(projectId, chunk) {
      const project = numberOf(projectId)
      const outcome = project === undefined ? 'undeclared' : await uploads.putChunk(project, chunk)
      if (project === undefined || outcome === 'undeclared') return { outcome: 'undeclared', ready: [] }
      await uploads.resolveAwaited(project, chunk.digest, chunk.receivedAt)
      return { outcome, ready: readSnapshot(() => maps.readyMaps(project, chunk.digest, readyMapsMax)) }
    },

    readChunk: async (projectId, digest) => readChunk({ maps, blobs, reader }, projectId, digest),

    async pendingTotals(projectId) {
      return readProject(projectId, { maps: 0, bytes: 0 }, maps.pendingTotals)
    },
  }
}

function readChunk(
  { maps, blobs, reader }: Pick<MapStoreOptions, 'maps' | 'blobs' | 'reader'>,
  projectId: string,
  digest: Digest,
): Buffer | undefined {
  const blobKeyOf = (project: number) => maps.chunks.blobKeyOf(project, digest)
  for (let missed: BlobKey | undefined; ; ) {
    const blobKey = reader.readProject<BlobKey | undefined>(projectId, undefined, blobKeyOf)
    if (!blobKey) return undefined
    const bytes = reader.readSnapshot(() => blobs.read(blobKey))
    // takes a millisecond for the largest chunk
    if (bytes && digestOf(bytes) === digest) return bytes
    // a chunk may be deleted between the two reads; the next read then finds another blob or none
    if (missed?.equals(blobKey)) {
      throw new IngestError('store-damaged', `The bytes of chunk ${digest} are lost or damaged: restore a backup.`)
    }
    missed = blobKey
  }
}

interface UpdateContext extends Pick<MapStoreOptions, 'maps' | 'writer' | 'reader'> {
  uploads: ChunkUploads
  areStored(projectId: string, encoded: Buffer): Promise<Buffer>
}

/** Reads, decides and writes; repeats this until nothing changes in between. */
async function updateMap<T>(
  { maps, writer, reader, uploads, areStored }: UpdateContext,
  { projectId, ...map }: MapKey,
  { digests = [], uploads: chunks = [] }: MapChunks,
  decide: (slot: UpdatedSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
): Promise<T> {
  const encoded = encodeDigests(digests)
  let written = noUploads
  let writtenFor: number | undefined

  async function discardUploads(): Promise<void> {
    const unused = written
    written = noUploads
    await uploads.markUnused(unused)
  }

  try {
    for (;;) {
      // the writer checks that the presence of the chunks is still the same
      const stored = await areStored(projectId, encoded)
      const {
        contents: before,
        frozenAt,
        version,
      } = reader.readProject(projectId, noMap, (project) => maps.find(project, map))
      const slot: UpdatedSlot = { ...before, ...(frozenAt !== undefined && { frozenAt }) }
      const present = new Set(digests.filter((_, i) => stored[i] === 1))
      const { contents, result } = decide(slot, present)
      if (!contents) return result
      const project = reader.numberToBe(projectId)
      if (project !== writtenFor) await discardUploads()
      writtenFor = project
      if (chunks.length > 0 && written.size === 0) written = await uploads.write(project, chunks)
      const collections = uploads.collectionsWith(written)
      if (collections === undefined) {
        await discardUploads()
        continue
      }
      const outcome = await writer.run({
        type: 'putMap',
        projectId,
        project,
        map,
        version,
        digests: encoded,
        present: stored,
        ...manifestsToPut(slot, contents),
        uploads: written,
        collections,
      })
      if (outcome === 'changed') continue
      if (outcome === 'unreleased') await releaseChunks(writer)
      const uploaded = [...written.keys()]
      written = noUploads
      for (const digest of uploaded) await uploads.resolveAwaited(project, digest)
      return result
    }
  } finally {
    await discardUploads()
  }
}

/** The contents as the writer needs them; an unchanged manifest is not sent. */
function manifestsToPut(slot: UpdatedSlot, { complete, pending }: MapContents): Pick<PutMap, 'complete' | 'pending'> {
  const roleOf = (manifest: Manifest) => {
    if (manifest === slot.complete?.manifest) return 'complete'
    if (manifest === slot.pending?.manifest) return 'pending'
    return { ...manifest, chunks: encodeChunks(manifest.chunks) }
  }
  return {
    complete: complete && { manifest: roleOf(complete.manifest), publishedAt: complete.publishedAt },
    pending: pending && { manifest: roleOf(pending.manifest), touchedAt: pending.touchedAt },
  }
}
