import type { Digest, Manifest } from './map.ts'
import type { MapContents } from './map-store.ts'

/**
 * Whether a freeze has made a pending map void: the replacement of a complete one. This is all that a freeze means for
 * what is stored of a map, so a store freezes a build without touching its maps, and leaves out what is void in reading.
 */
export function isPendingVoid({ complete, pending }: StoredMap, frozenAt: number | undefined): boolean {
  return frozenAt !== undefined && complete !== undefined && pending !== undefined
}

interface StoredMap {
  complete?: unknown
  pending?: unknown
}

/** What expiry leaves of an expired map. */
export function contentsAfterExpiry({ complete }: MapContents): MapContents {
  return complete ? { complete } : {}
}

/** Whether a pending map is dropped as idle: last touched before this time, and its build is open. */
export function isExpired({ pending, frozenAt }: ExpirySubject, touchedBefore: number): boolean {
  return pending !== undefined && pending.touchedAt < touchedBefore && frozenAt === undefined
}

interface ExpirySubject {
  pending?: { touchedAt: number } | undefined
  frozenAt?: number | undefined
}

/** Cached, as one decision needs them several times and a manifest has up to 11,155 chunks. */
const digestsByManifest = new WeakMap<Manifest, readonly Digest[]>()

/** The distinct chunks of a manifest, in its order. */
export function digestsOf(manifest: Manifest): readonly Digest[] {
  const known = digestsByManifest.get(manifest)
  if (known) return known
  const digests = [...new Set(manifest.chunks.map(({ digest }) => digest))]
  digestsByManifest.set(manifest, digests)
  return digests
}
