import { createHash } from 'node:crypto'
import type { Issue } from '../error.ts'
import type { Store } from '../store.ts'
import { type DecidedPublication, decideCompletion, isSameCut } from './decide-publication.ts'
import type { Manifest, MapKey, PublishedMap } from './map.ts'
import { chunkBytesMax } from './publication.ts'
import { publishedMap } from './read-map.ts'

/** The most bytes that are hashed in one turn of the event loop: cheap compared with a batch of events. */
export const sliceBytesMax = 65_536
/** The most chunks that are read in one turn of the event loop. */
const sliceChunksMax = 64

export interface VerifyOptions {
  /** Resolves in another turn of the event loop. */
  nextTurn: () => Promise<unknown>
  /** Ends the verification, which rejects with its reason. */
  signal: AbortSignal
}

export interface CompleteOptions extends VerifyOptions {
  now: () => number
}

/**
 * Completes a pending manifest whose chunks are all there: reads the whole, and makes it the map if it is what the
 * manifest says; drops it, and says so in `issues`, if it is not. Undefined when something else became of it meanwhile.
 */
export async function completeMap(
  store: Store,
  key: MapKey,
  manifest: Manifest,
  { now, ...options }: CompleteOptions,
): Promise<PublishedMap | undefined> {
  const issues = await verifyManifest(store, key.projectId, manifest, options)
  if (issues === undefined) return undefined
  if (issues.length > 0) return drop(store, key, manifest, issues)
  const digests = manifest.chunks.map(({ digest }) => digest)
  return store.updateMap(key, { digests }, (slot, present) => {
    const decided = decideCompletion(slot, present, manifest, now())
    if (!decided) return { result: undefined }
    return withContents(decided, publishedMap(key, decided, slot.frozenAt !== undefined))
  })
}

/** A decision for the store: what is to be written, and the response. */
export function withContents<T>({ contents }: DecidedPublication, result: T) {
  return { ...(contents && { contents }), result }
}

/**
 * Hashes the chunks of a manifest in slices of at most {@link sliceBytesMax}. Resolves to what is wrong, to an empty
 * list if the map is what the manifest says, or to undefined if a chunk is no longer stored. Hashes at most
 * `manifest.size` bytes, and holds at most one chunk.
 */
export async function verifyManifest(
  store: Store,
  projectId: string,
  { digest, chunks }: Manifest,
  { nextTurn, signal }: VerifyOptions,
): Promise<Issue[] | undefined> {
  const hash = createHash('sha256')
  let buffer: Buffer | undefined
  // full, so that the first chunk waits for its turn too
  let slice = { bytes: sliceBytesMax, chunks: 0 }

  /** Begins another slice, in another turn, if this one cannot take so many more bytes. */
  async function reserve(bytes: number): Promise<void> {
    if (slice.bytes + bytes <= sliceBytesMax && slice.chunks < sliceChunksMax) return
    await nextTurn()
    signal.throwIfAborted()
    slice = { bytes: 0, chunks: 0 }
  }

  for (const [i, chunk] of chunks.entries()) {
    signal.throwIfAborted()
    await reserve(Math.min(chunk.size, sliceBytesMax))
    const isLarge = chunk.size > sliceBytesMax
    if (isLarge) buffer ??= Buffer.allocUnsafe(chunkBytesMax)
    const size = await store.chunk(projectId, chunk.digest, (bytes) => {
      if (bytes.length !== chunk.size) return bytes.length
      // a large chunk takes several turns, and `bytes` are valid in this callback only
      if (isLarge) buffer?.set(bytes)
      else hash.update(bytes)
      return bytes.length
    })
    if (size === undefined) return undefined
    if (size !== chunk.size) {
      const message = `Expected the size of the chunk, ${size}.`
      return [{ code: 'out_of_range', path: `/manifest/chunks/${i}/size`, message }]
    }
    slice.chunks++
    if (!isLarge) slice.bytes += size
    for (let at = 0; isLarge && at < size; at += sliceBytesMax) {
      const part = (buffer as Buffer).subarray(at, Math.min(at + sliceBytesMax, size))
      await reserve(part.length)
      hash.update(part)
      slice.bytes += part.length
    }
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
