import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { IngestError } from '../error.ts'
import { digestOf } from '../maps/digest.ts'
import type { Digest, Manifest, MapId } from '../maps/map.ts'
import type { MapEntry, MapSlot } from '../maps/map-store.ts'
import { digestsOf } from '../maps/pending-map.ts'
import type { Store } from '../store.ts'
import type { CopyStores } from './copy-events.ts'

/** What a project has of maps. */
export interface CopiedMaps {
  maps: number
  /** Of the complete maps. */
  bytes: number
}

const pageSize = 100
/** How often the maps are copied again because the source has changed, or a shared chunk has touched another upload. */
const passesMax = 5
/** Chunks in flight; one has at most 1 MiB. */
const concurrency = 4

/**
 * Makes the maps of the target those of the source: complete and pending ones with their chunks and times. Run it after
 * the events, whose builds are frozen in the target then.
 *
 * @throws {IngestError} `precondition-failed` for a map that the source does not have, `source-changed`
 */
export async function copyMaps(stores: CopyStores, projectId: string): Promise<CopiedMaps> {
  for (let passes = 0; passes < passesMax; passes++) {
    let isChanged = false
    const copied: CopiedMaps = { maps: 0, bytes: 0 }
    const names = new Set<string>()
    for await (const entry of eachMap(stores.source, projectId)) {
      names.add(mapKeyOf(entry))
      copied.maps++
      copied.bytes += entry.slot.complete?.manifest.size ?? 0
      if (await copyMap(stores, projectId, entry)) isChanged = true
    }
    for await (const entry of eachMap(stores.target, projectId)) {
      if (names.has(mapKeyOf(entry))) continue
      if (entry.slot.complete) throw hasOwnMap(projectId, entry)
      await dropPending(stores, projectId, entry)
      isChanged = true
    }
    if (!isChanged) return copied
  }
  throw new IngestError('source-changed', `The maps of the project ${projectId} change in the source: run it again.`)
}

async function* eachMap(store: Store, projectId: string): AsyncGenerator<MapEntry> {
  for (let after: MapId | undefined; ; ) {
    const page = await store.maps(projectId, { limit: pageSize, after })
    yield* page
    if (page.length < pageSize) return
    after = page.at(-1) as MapId
  }
}

function mapKeyOf({ placeId, buildId }: MapId): string {
  return JSON.stringify([placeId, buildId])
}

/** Returns whether anything was to be done. */
async function copyMap(stores: CopyStores, projectId: string, { placeId, buildId, slot }: MapEntry): Promise<boolean> {
  const key = { projectId, placeId, buildId }
  const { complete, pending } = slot
  const found = await stores.target.map(key)
  if (isSameSlot(found, slot)) return false
  if (found.complete && found.complete.publishedAt > (complete?.publishedAt ?? 0)) {
    throw hasOwnMap(projectId, key)
  }
  const isComplete = isDeepStrictEqual(found.complete, complete)
  const sources = [
    ...(complete && !isComplete ? [{ manifest: complete.manifest, missing: [] }] : []),
    ...(pending ? [pending] : []),
  ]
  for (const { manifest, missing } of sources) {
    if (!(await uploadChunks(stores, key, manifest, new Set(missing)))) return true
    await stores.target.updateMap(key, { digests: digestsOf(manifest) }, (now, present) => {
      const uploaded = now.pending
      if (!uploaded || !isDeepStrictEqual(uploaded.manifest, manifest)) return { result: undefined }
      if (manifest === pending?.manifest) {
        const contents = {
          ...(now.complete && { complete: now.complete }),
          pending: { ...uploaded, touchedAt: pending.touchedAt },
        }
        return { contents, result: undefined }
      }
      if (!complete || digestsOf(manifest).some((digest) => !present.has(digest))) return { result: undefined }
      return { contents: { complete: { ...complete, manifest: uploaded.manifest } }, result: undefined }
    })
  }
  if (!pending) await dropPending(stores, projectId, { placeId, buildId })
  return true
}

function hasOwnMap(projectId: string, { placeId, buildId }: MapId): Error {
  return new IngestError(
    'precondition-failed',
    `The project ${projectId} has a map in the target for place "${placeId}" in build "${buildId}" that the source does not have.`,
  )
}

function isSameSlot(a: MapSlot, b: MapSlot): boolean {
  const { frozenAt: _a, ...own } = a
  const { frozenAt: _b, ...other } = b
  return isDeepStrictEqual(own, other)
}

/**
 * Records a manifest as pending, and stores those of its chunks that the source has. Returns false if the source or the
 * target has changed meanwhile.
 */
async function uploadChunks(
  { source, target, signal }: CopyStores,
  key: MapId & { projectId: string },
  manifest: Manifest,
  missing: ReadonlySet<Digest>,
): Promise<boolean> {
  const { projectId } = key
  const digests = digestsOf(manifest)
  const touchedAt = Date.now()
  const wanted = await target.updateMap(key, { digests }, ({ complete, pending }, present) => {
    const known = pending && isDeepStrictEqual(pending.manifest, manifest) ? pending.manifest : manifest
    return {
      contents: { ...(complete && { complete }), pending: { manifest: known, touchedAt } },
      result: digests.filter((digest) => !present.has(digest) && !missing.has(digest)),
    }
  })
  let isCurrent = true
  const left = wanted.values()
  async function upload(): Promise<void> {
    for (const digest of left) {
      signal.throwIfAborted()
      const bytes = await source.readChunk(projectId, digest)
      if (bytes && digestOf(bytes) !== digest) {
        const message = `The chunk ${digest} of the project ${projectId} does not match its digest in the source.`
        throw new IngestError('digest-mismatch', message)
      }
      const put = bytes && (await target.putChunk(projectId, { digest, bytes, receivedAt: Date.now() }))
      if (!put || put.outcome === 'undeclared') isCurrent = false
      if (!isCurrent) return
    }
  }
  await Promise.all(Array.from({ length: concurrency }, upload))
  return isCurrent
}

/** Drops an upload that the source no longer has: it expired, or a freeze ended it. */
async function dropPending({ target }: CopyStores, projectId: string, { placeId, buildId }: MapId): Promise<void> {
  await target.updateMap({ projectId, placeId, buildId }, {}, ({ complete, pending }) => ({
    ...(pending && { contents: complete ? { complete } : {} }),
    result: undefined,
  }))
}

/**
 * Reads all complete maps of the target, and compares them with their digests.
 *
 * @throws {IngestError} `digest-mismatch`
 */
export async function verifyMaps(
  { target, signal }: CopyStores,
  projectId: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  for await (const { placeId, buildId, slot } of eachMap(target, projectId)) {
    if (!slot.complete) continue
    const { chunks, digest } = slot.complete.manifest
    const hash = createHash('sha256')
    for (const chunk of chunks) {
      signal.throwIfAborted()
      const bytes = await target.readChunk(projectId, chunk.digest)
      if (bytes) hash.update(bytes)
      onBytes(chunk.size)
    }
    if (`sha256:${hash.digest('hex')}` === digest) continue
    const map = `The map of place "${placeId}" in build "${buildId}" of the project ${projectId}`
    throw new IngestError('digest-mismatch', `${map} does not match its digest.`)
  }
}
