import { isDeepStrictEqual } from 'node:util'
import { IngestError } from '../error.ts'
import { digestsOf } from '../maps/pending-map.ts'
import type { Store } from '../store.ts'
import type { CompleteMap, Digest, MapId, MapKey } from '../store-types.ts'
import type { CopyStores } from './copy-events.ts'

const pageSize = 100
/** Maximum attempts to copy a map that the source replaces meanwhile. */
const attemptsMax = 5
/** Maximum chunks in flight, of at most 1 MiB each. */
const concurrency = 4

/**
 * Copies the complete maps of a project that the target lacks, with their times. Runs after the events are copied, so
 * that their builds are frozen in the target. Returns the number of maps of the source.
 *
 * @throws {IngestError} `precondition-failed` for a map that is newer in the target, `source-changed`
 */
export async function copyMaps(stores: CopyStores, projectId: string): Promise<number> {
  let count = 0
  for await (const { placeId, buildId } of completeMaps(stores.source, projectId)) {
    const key = { projectId, placeId, buildId }
    for (let attempts = 1; !(await copyMap(stores, key)); attempts++) {
      if (attempts === attemptsMax) throw changes(key)
    }
    count++
  }
  return count
}

async function* completeMaps(store: Store, projectId: string): AsyncGenerator<MapId> {
  for (let after: MapId | undefined; ; ) {
    const page = await store.maps(projectId, { limit: pageSize, after })
    yield* page.filter(({ slot }) => slot.complete)
    if (page.length < pageSize) return
    after = page.at(-1) as MapId
  }
}

/** Returns false if the map has changed meanwhile and must be copied again. */
async function copyMap(stores: CopyStores, key: MapKey): Promise<boolean> {
  const [{ complete }, found] = await Promise.all([stores.source.map(key), stores.target.map(key)])
  if (!complete || isDeepStrictEqual(found.complete, complete)) return true
  if (found.complete && found.complete.publishedAt > complete.publishedAt) throw isNewerInTarget(key)
  if (!(await uploadChunks(stores, key, complete))) return false
  return stores.target.updateMap(key, { digests: digestsOf(complete.manifest) }, (_slot, present) =>
    present.size < digestsOf(complete.manifest).length ? { result: false } : { contents: { complete }, result: true },
  )
}

/** Stores the chunks; a pending map names them meanwhile. Returns false if the source or the target has changed. */
async function uploadChunks({ source, target, signal }: CopyStores, key: MapKey, map: CompleteMap): Promise<boolean> {
  const digests = digestsOf(map.manifest)
  const missing = await target.updateMap(key, { digests }, ({ complete }, present) => ({
    contents: { ...(complete && { complete }), pending: { manifest: map.manifest, touchedAt: Date.now() } },
    result: digests.filter((digest) => !present.has(digest)),
  }))
  let isCurrent = true
  const left = missing.values()
  async function upload(): Promise<void> {
    for (const digest of left) {
      signal.throwIfAborted()
      if (!isCurrent || !(await uploadChunk(digest))) return
    }
  }
  async function uploadChunk(digest: Digest): Promise<boolean> {
    const bytes = await source.readChunk(key.projectId, digest)
    const put = bytes && (await target.putChunk(key.projectId, { digest, bytes, receivedAt: Date.now() }))
    isCurrent &&= put !== undefined && put.outcome !== 'undeclared'
    return isCurrent
  }
  await Promise.all(Array.from({ length: concurrency }, upload))
  return isCurrent
}

function describe({ projectId, placeId, buildId }: MapKey): string {
  return `The map of place "${placeId}" in build "${buildId}" of the project ${projectId}`
}

function changes(key: MapKey): Error {
  return new IngestError('source-changed', `${describe(key)} changes in the source: run it again.`)
}

function isNewerInTarget(key: MapKey): Error {
  return new IngestError('precondition-failed', `${describe(key)} is newer in the target: copy to another store.`)
}
