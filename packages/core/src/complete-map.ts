import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type DecidedPublication, decideCompletion, isSameCut } from './decide-publication.ts'
import type { Issue } from './issue.ts'
import type { Manifest, MapKey, PublishedMap } from './map.ts'
import { publishedMap } from './map-status.ts'
import type { Store } from './store.ts'

/**
 * Completes a pending manifest whose chunks are all there: reads the whole, and makes it the map if it is what the
 * manifest says; drops it, and says so in `issues`, if it is not. Undefined when something else became of it meanwhile.
 */
export async function completeMap(
  store: Store,
  key: MapKey,
  manifest: Manifest,
  now: () => number,
): Promise<PublishedMap | undefined> {
  const issues = await verifyManifest(store, key.projectId, manifest)
  if (issues === undefined) return undefined
  if (issues.length > 0) return drop(store, key, manifest, issues)
  const digests = manifest.chunks.map(({ digest }) => digest)
  return store.updateMap(key, { digests }, (slot, present) => {
    const decided = decideCompletion(slot, present, manifest, now())
    if (!decided) return { result: undefined }
    return withContents(decided, publishedMap(key, decided, slot.frozenAt !== undefined))
  })
}

/** A decision for the store: what is to be written, and the answer. */
export function withContents<T>({ contents }: DecidedPublication, result: T) {
  return { ...(contents && { contents }), result }
}

/**
 * What is wrong with the chunks of a manifest, read one by one with turns for others between them; nothing when the
 * whole is what the manifest says, undefined when a chunk is not there any more.
 */
export async function verifyManifest(
  store: Store,
  projectId: string,
  { digest, chunks }: Manifest,
): Promise<Issue[] | undefined> {
  const hash = createHash('sha256')
  for (const [i, chunk] of chunks.entries()) {
    const size = await store.chunk(projectId, chunk.digest, (bytes) => {
      hash.update(bytes)
      return bytes.length
    })
    if (size === undefined) return undefined
    if (size !== chunk.size) {
      const message = `Expected the size of the chunk, ${size}.`
      return [{ code: 'out_of_range', path: `/manifest/chunks/${i}/size`, message }]
    }
    await nextTurn()
  }
  if (`sha256:${hash.digest('hex')}` === digest) return []
  return [{ code: 'digest_mismatch', path: '/manifest/digest', message: 'Expected the digest of all chunks together.' }]
}

function drop(store: Store, key: MapKey, manifest: Manifest, issues: Issue[]): Promise<PublishedMap | undefined> {
  return store.updateMap(key, {}, ({ complete, pending, frozenAt }) => {
    if (!pending || !isSameCut(pending.manifest, manifest)) return { result: undefined }
    const decided: DecidedPublication = { outcome: 'incomplete', missing: [], manifest }
    const result = { ...publishedMap(key, decided, frozenAt !== undefined), issues }
    return { contents: complete ? { complete } : {}, result }
  })
}
