import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type ChunkUpload,
  type Digest,
  IngestError,
  type Manifest,
  type MapContents,
  type MapEntry,
  type MapSlot,
  type MapStore,
  type NewChunk,
} from '@ingest/core'
import { readyMapsMax } from '@ingest/core/internal'
import type { ChunkBlobs } from './chunks/chunk-blobs.ts'
import type { Rows } from './environment/environment.ts'
import type { SlicedReads } from './log/event-log.ts'
import { createTurns } from './project-store.ts'
import type { SnapshotReader } from './read-snapshot.ts'
import { listBuilds } from './tables/builds.ts'
import type { BlobKey, WrittenChunk } from './tables/chunks.ts'
import { type MapTables, versionOfNone } from './tables/maps.ts'
import { deserializeError, type SerializedError } from './threads/error-transfer.ts'
import type { PutMap } from './writer/commands.ts'
import type { Writer } from './writer/writer-client.ts'

export interface MapStoreOptions {
  maps: MapTables
  blobs: ChunkBlobs
  writer: Writer
  reader: SnapshotReader
  table(name: string): Rows
  slicedReads(projectId: string): SlicedReads
}

/** The most maps that are read in one turn of the event loop. */
const turnMapsMax = 1000

const noUploads: ReadonlyMap<Digest, WrittenChunk> = new Map()

export function createMapStore({ maps, blobs, writer, reader, table, slicedReads }: MapStoreOptions): MapStore {
  const { readSnapshot, readProject, numberOf } = reader
  const inTurn = createTurns()

  async function writeBlobs(project: number, uploads: readonly ChunkUpload[]): Promise<Map<Digest, WrittenChunk>> {
    const blobKeys = await blobs.write(project, uploads)
    return new Map(
      uploads.map(({ digest, bytes }) => [digest, { blobKey: blobKeys.get(digest) as BlobKey, size: bytes.length }]),
    )
  }

  /** The collection count at which all of these blobs exist; undefined if one is deleted, or about to be. */
  function collectionsWith(written: ReadonlyMap<Digest, WrittenChunk>): number | undefined {
    const keys = [...written.values()].map(({ blobKey }) => blobKey)
    // the count first: blobs that exist at a count are deleted only at a later one
    const [collections, isGarbage] = readSnapshot(() => [
      maps.chunks.collections(),
      keys.some((blobKey) => maps.chunks.isGarbage(blobKey)),
    ])
    return isGarbage || !keys.every(blobs.exists) ? undefined : collections
  }

  /** Marks blobs as garbage whose chunks were not stored; those that cannot be marked are found at the next opening. */
  async function discard(written: ReadonlyMap<Digest, WrittenChunk>): Promise<void> {
    if (written.size === 0) return
    const blobKeys = [...written.values()].map(({ blobKey }) => blobKey)
    await writer.run({ type: 'markGarbage', blobKeys }).catch(() => {})
  }

  /** Updates all pending manifests that miss a stored chunk, a bounded number in each transaction. */
  async function resolveAwaited(project: number, digest: Digest, touchedAt?: number): Promise<void> {
    const isAwaited = () => maps.pending.isAwaited(project, digest) && maps.chunks.isStored(project, digest)
    while (readSnapshot(isAwaited)) await writer.run({ type: 'resolveAwaited', project, digest, touchedAt })
  }

  function readSlot(projectId: string, key: { placeId: string; buildId: string }, digests: readonly Digest[]) {
    const none = { slot: {} as MapSlot, version: versionOfNone, present: new Set<Digest>() }
    return readProject(projectId, none, (project) => {
      const found = maps.find(project, key)
      return { slot: maps.slot(project, found), version: found.version, present: maps.present(project, digests) }
    })
  }

  async function putChunk(project: number, chunk: NewChunk) {
    const { digest, receivedAt, pendingBytesMax } = chunk
    for (;;) {
      const [isNamed, isStored] = readSnapshot(() => [
        maps.chunks.isNamed(project, digest),
        maps.chunks.isStored(project, digest),
      ])
      if (!isNamed) return 'undeclared'
      if (isStored) return 'existing'
      const written = await writeBlobs(project, [chunk])
      const collections = collectionsWith(written)
      if (collections === undefined) continue
      const own = written.get(digest) as WrittenChunk
      const command = {
        type: 'putChunk',
        project,
        digest,
        chunk: own,
        collections,
        receivedAt,
        pendingBytesMax,
      } as const
      const outcome = await writer.run(command).catch(async (error) => {
        await discard(written)
        throw error
      })
      if (outcome === 'stored' || outcome === 'existing' || outcome === 'undeclared') return outcome
      await discard(written)
      if (outcome !== 'changed') throw refusalOf(outcome)
    }
  }

  return {
    async map({ projectId, ...id }) {
      return readProject<MapSlot>(projectId, {}, (project) => maps.slot(project, maps.find(project, id)))
    },

    async maps(projectId, { limit, ...selection }) {
      const entries: MapEntry[] = []
      for (let after = selection.after; ; ) {
        const part = { ...selection, ...(after && { after }), limit: limit - entries.length }
        const none: ReturnType<MapTables['list']> = { entries: [] }
        const page = readProject(projectId, none, (project) => maps.list(project, part, turnMapsMax))
        entries.push(...page.entries)
        if (!page.last || entries.length === limit) return entries
        after = page.last
        await nextTurn()
      }
    },

    async builds(projectId, selection) {
      const project = numberOf(projectId)
      return project === undefined ? [] : listBuilds(table, slicedReads(projectId), project, selection)
    },

    updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [], pendingBytesMax }, decide) {
      const map = { placeId, buildId }
      return inTurn(JSON.stringify([projectId, placeId, buildId]), async () => {
        let written = noUploads
        try {
          for (;;) {
            const { slot, version, present } = readSlot(projectId, map, digests)
            const { contents, result } = decide(slot, present)
            if (!contents) return result
            const project = numberOf(projectId) ?? (await writer.run({ type: 'createProject', projectId }))
            if (uploads.length > 0 && written.size === 0) written = await writeBlobs(project, uploads)
            const collections = collectionsWith(written)
            if (collections === undefined) {
              await discard(written)
              written = noUploads
              continue
            }
            const outcome = await writer.run({
              type: 'putMap',
              project,
              map,
              version,
              digests,
              present,
              ...manifestsToPut(slot, contents),
              uploads: written,
              collections,
              pendingBytesMax,
            })
            if (outcome === 'changed') continue
            if (outcome !== 'written') throw refusalOf(outcome)
            const stored = [...written.keys()]
            written = noUploads
            for (const digest of stored) await resolveAwaited(project, digest)
            return result
          }
        } finally {
          await discard(written)
        }
      })
    },

    async putChunk(projectId, chunk) {
      const project = numberOf(projectId)
      const outcome = project === undefined ? 'undeclared' : await putChunk(project, chunk)
      if (project === undefined || outcome === 'undeclared') return { outcome: 'undeclared', ready: [] }
      await resolveAwaited(project, chunk.digest, chunk.receivedAt)
      return { outcome, ready: readSnapshot(() => maps.readyWith(project, chunk.digest, readyMapsMax)) }
    },

    async readChunk(projectId, digest) {
      for (let missed: BlobKey | undefined; ; ) {
        const blobKey = readProject<BlobKey | undefined>(projectId, undefined, (project) =>
          maps.chunks.blobKeyOf(project, digest),
        )
        const bytes = blobKey && readSnapshot(() => blobs.read(blobKey))
        if (!blobKey || bytes) return bytes
        // a chunk may be deleted between the two reads, but then the next read has another blob or none
        if (missed?.equals(blobKey)) {
          throw new IngestError('store-damaged', `The bytes of chunk ${digest} are missing: restore a backup.`)
        }
        missed = blobKey
      }
    },

    async expirePending(touchedBefore) {
      for (const { project, id } of readSnapshot(() => maps.expired(touchedBefore))) {
        await writer.run({ type: 'expirePending', project, map: id, touchedBefore })
      }
    },

    async pendingBytes(projectId) {
      return readProject(projectId, 0, (project) => maps.pending.pendingBytes(project))
    },
  }
}

/** The contents as the writer needs them: a manifest that stays is not sent. */
function manifestsToPut(slot: MapSlot, { complete, pending }: MapContents): Pick<PutMap, 'complete' | 'pending'> {
  const roleOf = (manifest: Manifest) => {
    if (manifest === slot.complete?.manifest) return 'complete'
    return manifest === slot.pending?.manifest ? 'pending' : manifest
  }
  return {
    complete: complete && { manifest: roleOf(complete.manifest), publishedAt: complete.publishedAt },
    pending: pending && { manifest: roleOf(pending.manifest), touchedAt: pending.touchedAt },
  }
}

function refusalOf({ refusal }: { refusal: SerializedError }): IngestError {
  return deserializeError(refusal)
}
