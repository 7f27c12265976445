import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Issue } from '../error.ts'
import { type DecidedPublication, decideCompletion, isSameCut } from './decide-publication.ts'
import type { Digest, Manifest, MapKey, PublishedMap, VerificationOptions } from './map.ts'
import type { HashedChunks, MapStore } from './map-store.ts'
import { digestsOf } from './pending-map.ts'
import { publishedMap } from './read-map.ts'
import { createVerificationQueue } from './verification-queue.ts'

/** Maximum bytes that are hashed in one turn of the event loop: cheap compared with a batch of events. */
export const sliceBytesMax = 65_536
/** Maximum number of chunks that are read in one turn of the event loop. */
const sliceChunksMax = 64

/** Verifies manifests, one at a time per project; concurrent calls for the same manifest share one run. */
export interface MapVerifier {
  /** Verifies and completes a pending manifest whose chunks are all stored, as {@link completeMap}. */
  complete(key: MapKey, manifest: Manifest, options: VerificationOptions): Promise<PublishedMap | undefined>
  /** As {@link verifyManifest}. */
  verify(projectId: string, manifest: Manifest, options: VerificationOptions): Promise<Issue[] | undefined>
  /** Whether a verification of the project is running. */
  isBusy(projectId: string): boolean
}

export function createMapVerifier(store: MapStore, now: () => number): MapVerifier {
  const queue = createVerificationQueue()
  let lastTurn: Promise<unknown> = Promise.resolve()

  /** Resolves in a turn of the event loop in which no other verification of any project hashes. */
  function takeTurn(): Promise<unknown> {
    lastTurn = lastTurn.then(() => nextTurn())
    return lastTurn
  }

  return {
    complete(key, manifest, { admit, signal }) {
      const { projectId, placeId, buildId } = key
      const name = JSON.stringify(['complete', placeId, buildId, manifest])
      const work = (signal: AbortSignal) => completeMap(store, key, manifest, { now, signal, nextTurn: takeTurn })
      return queue.run({ projectId, name, admit: () => admit?.(manifest.size), work }, signal)
    },

    verify(projectId, manifest, { admit, signal }) {
      const name = JSON.stringify(['verify', manifest])
      const work = (signal: AbortSignal) => verifyManifest(store, projectId, manifest, { signal, nextTurn: takeTurn })
      return queue.run({ projectId, name, admit: () => admit?.(manifest.size), work }, signal)
    },

    isBusy: queue.isBusy,
  }
}

export interface VerifyOptions {
  /** Resolves in another turn of the event loop. */
  nextTurn: () => Promise<unknown>
  /** Ends the verification, which rejects with its reason. */
  signal: AbortSignal
}

/**
 * Verifies a pending manifest whose chunks are all stored, and makes it the complete map. If the chunks do not match,
 * drops it and returns `issues` in the result. Undefined if it is no longer pending.
 */
export async function completeMap(
  store: MapStore,
  key: MapKey,
  manifest: Manifest,
  { now, ...options }: VerifyOptions & { now: () => number },
): Promise<PublishedMap | undefined> {
  const issues = await verifyManifest(store, key.projectId, manifest, options)
  if (issues === undefined) return undefined
  if (issues.length > 0) return dropPending(store, key, manifest, issues)
  return store.updateMap(key, { digests: digestsOf(manifest) }, (slot, present) => {
    const decided = decideCompletion(slot, present, manifest, now())
    if (!decided) return { result: undefined }
    return withContents(decided, publishedMap(key, decided, slot.frozenAt !== undefined))
  })
}

/** The decision of `updateMap`: the contents to write, and the result. */
export function withContents<T>({ contents }: DecidedPublication, result: T) {
  return { ...(contents && { contents }), result }
}

/**
 * Hashes the chunks of a manifest: in the store if it has `hashChunks`, otherwise in slices of at most {@link
 * sliceBytesMax}. Resolves to the issues (empty if the chunks match), or to undefined if a chunk is no longer stored.
 * Hashes at most `manifest.size` bytes, and holds at most one chunk.
 */
export async function verifyManifest(
  store: MapStore,
  projectId: string,
  { digest, chunks }: Manifest,
  { nextTurn, signal }: VerifyOptions,
): Promise<Issue[] | undefined> {
  if (store.hashChunks) return issuesOf(await store.hashChunks(projectId, chunks, signal), digest)
  const hash = createHash('sha256')
  // starts full, so that the first chunk begins a slice too
  let slice = { bytes: sliceBytesMax, chunks: 0 }

  /** Begins a new slice in a later turn if the current one cannot take `bytes` more. */
  async function reserve(bytes: number): Promise<void> {
    if (slice.bytes + bytes <= sliceBytesMax && slice.chunks < sliceChunksMax) return
    await nextTurn()
    signal.throwIfAborted()
    slice = { bytes: 0, chunks: 0 }
  }

  for (const [i, chunk] of chunks.entries()) {
    signal.throwIfAborted()
    await reserve(Math.min(chunk.size, sliceBytesMax))
    const bytes = await store.readChunk(projectId, chunk.digest)
    if (bytes === undefined) return undefined
    if (bytes.length !== chunk.size) return issuesOf({ index: i, size: bytes.length }, digest)
    for (let at = 0; at < bytes.length; at += sliceBytesMax) {
      const part = bytes.subarray(at, at + sliceBytesMax)
      await reserve(part.length)
      hash.update(part)
      slice.bytes += part.length
    }
    slice.chunks++
  }
  return issuesOf({ digest: `sha256:${hash.digest('hex')}` }, digest)
}

function issuesOf(hashed: HashedChunks | undefined, digest: Digest): Issue[] | undefined {
  if (!hashed) return undefined
  if ('index' in hashed) {
    const message = `Expected the size of the chunk, ${hashed.size}.`
    return [{ code: 'out_of_range', path: `/manifest/chunks/${hashed.index}/size`, message }]
  }
  if (hashed.digest === digest) return []
  return [{ code: 'digest_mismatch', path: '/manifest/digest', message: 'Expected the digest of all chunks together.' }]
}

function dropPending(
  store: MapStore,
  key: MapKey,
  manifest: Manifest,
  issues: Issue[],
): Promise<PublishedMap | undefined> {
  return store.updateMap(key, {}, ({ complete, pending, frozenAt }) => {
    if (!pending || !isSameCut(pending.manifest, manifest)) return { result: undefined }
    const decided: DecidedPublication = { outcome: 'incomplete', missing: [], manifest }
    const result = { ...publishedMap(key, decided, frozenAt !== undefined), issues }
    return { contents: complete ? { complete } : {}, result }
  })
}
