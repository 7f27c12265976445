import { createHash } from 'node:crypto'
import type { Issue } from '../error.ts'
import { createKeyedMutex } from '../operations.ts'
import { nextReadStep } from '../read-steps.ts'
import type { MapStore } from '../store.ts'
import type { Manifest, MapKey } from '../store-types.ts'
import { type DecidedPublication, decideCompletion, isSameCut } from './decide-publication.ts'
import type { PublishedMap, VerificationOptions } from './map.ts'
import { digestsOf } from './pending-map.ts'
import { publishedMap } from './read-map.ts'

/** Maximum bytes that are hashed in one turn of the event loop: cheap beside a batch of events. */
export const sliceBytesMax = 65_536
/** Maximum number of chunks that are read in one turn of the event loop. */
const sliceChunksMax = 64

/** Verifies the manifests of each project one at a time. */
export interface MapVerifier {
  /** Verifies and completes a pending manifest whose chunks are all stored, like {@link completeMap}. */
  complete(key: MapKey, manifest: Manifest, options: VerificationOptions): Promise<PublishedMap | undefined>
  /** Like {@link verifyManifest}. */
  verify(projectId: string, manifest: Manifest, options: VerificationOptions): Promise<Issue[] | undefined>
  /** Whether a verification of the project runs or waits. */
  isBusy(projectId: string): boolean
}

export function createMapVerifier(store: MapStore, now: () => number): MapVerifier {
  const inTurn = createKeyedMutex()
  /** The number of verifications of each project that run or wait. */
  const countByProject = new Map<string, number>()

  async function run<T>(
    projectId: string,
    bytes: number,
    { admit, signal = new AbortController().signal }: VerificationOptions,
    work: (options: VerifyOptions) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted()
    // not awaited without `admit`, so that the project counts as busy when this returns
    if (admit) await admit(bytes)
    signal.throwIfAborted()
    addCount(projectId, 1)
    let leave = () => {}
    const left = new Promise<never>((_, reject) => {
      leave = () => reject(signal.reason)
    })
    signal.addEventListener('abort', leave, { once: true })
    const verified = inTurn(projectId, async () => {
      signal.throwIfAborted()
      return work({ signal, nextTurn: () => nextReadStep(projectId) })
    })
    // a caller that leaves does not wait for its verification
    return Promise.race([verified, left]).finally(() => {
      signal.removeEventListener('abort', leave)
      addCount(projectId, -1)
    })
  }

  function addCount(projectId: string, change: 1 | -1): void {
    const count = (countByProject.get(projectId) ?? 0) + change
    if (count > 0) countByProject.set(projectId, count)
    else countByProject.delete(projectId)
  }

  return {
    complete: (key, manifest, options) =>
      run(key.projectId, manifest.size, options, (turns) => completeMap(store, key, manifest, { now, ...turns })),
    verify: (projectId, manifest, options) =>
      run(projectId, manifest.size, options, (turns) => verifyManifest(store, projectId, manifest, turns)),
    isBusy: (projectId) => countByProject.has(projectId),
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
  const { pending } = await store.map(key)
  // another call may have completed it meanwhile
  if (!pending || !isSameCut(pending.manifest, manifest)) return undefined
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
 * Hashes the chunks of a manifest in slices of at most {@link sliceBytesMax}. Resolves to the issues (empty if the chunks
 * match), or to undefined if a chunk is no longer stored. Hashes at most `manifest.size` bytes, and holds at most one
 * chunk.
 */
export async function verifyManifest(
  store: MapStore,
  projectId: string,
  { digest, chunks }: Manifest,
  { nextTurn, signal }: VerifyOptions,
): Promise<Issue[] | undefined> {
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
    if (bytes.length !== chunk.size) {
      const message = `Expected the size of the chunk, ${bytes.length}.`
      return [{ code: 'out_of_range', path: `/manifest/chunks/${i}/size`, message }]
    }
    for (let at = 0; at < bytes.length; at += sliceBytesMax) {
      const part = bytes.subarray(at, at + sliceBytesMax)
      await reserve(part.length)
      hash.update(part)
      slice.bytes += part.length
    }
    slice.chunks++
  }
  if (`sha256:${hash.digest('hex')}` === digest) return []
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
