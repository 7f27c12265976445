import type { Digest, Manifest } from '@ingest/core'

/** A decoded manifest, and which of its chunks were missing when it was read last. */
export interface CachedManifest {
  manifest: Manifest
  /** At this count of {@link PendingRow.missing}, which falls with each chunk that arrives. */
  missing?: { count: number; digests: readonly Digest[] }
}

/** The manifests that were read last, by number. A committed number never gets another manifest. */
export interface ManifestCache {
  get(number: number, read: () => Manifest): CachedManifest
}

/** A decoded chunk takes about 150 bytes. */
const cachedChunksMax = 200_000

/** Only for readers of committed snapshots: after a rollback, another manifest gets the same number. */
export function createManifestCache(chunksMax = cachedChunksMax): ManifestCache {
  /** The least recently used first. */
  const entries = new Map<number, CachedManifest>()
  let chunks = 0

  return {
    get(number, read) {
      const known = entries.get(number)
      const entry = known ?? { manifest: read() }
      entries.delete(number)
      entries.set(number, entry)
      // a manifest without chunks has a cost too
      if (!known) chunks += entry.manifest.chunks.length + 1
      for (const [oldest, { manifest }] of entries) {
        if (chunks <= chunksMax || oldest === number) break
        entries.delete(oldest)
        chunks -= manifest.chunks.length + 1
      }
      return entry
    },
  }
}

/** Keeps nothing. */
export const noManifestCache: ManifestCache = { get: (_, read) => ({ manifest: read() }) }
