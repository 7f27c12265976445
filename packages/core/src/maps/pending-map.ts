import type { Digest, Manifest, MapContents } from '../store-types.ts'

/**
 * Whether a freeze has made a pending map void: it would replace a complete one. This is the only effect of a freeze on
 * stored maps, so a store freezes a build without writing its maps, and hides void maps when it reads.
 */
export function isPendingVoid({ complete, pending }: StoredMap, frozenAt: number | undefined): boolean {
  return frozenAt !== undefined && complete !== undefined && pending !== undefined
}

interface StoredMap {
  complete?: unknown
  pending?: unknown
}

/** The contents that remain when a pending map expires. */
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

/** Cached: one decision needs them several times, and a manifest has up to 11,155 chunks. */
const digestsByManifest = new WeakMap<Manifest, readonly Digest[]>()

/** The distinct chunks of a manifest, in its order. */
export function digestsOf(manifest: Manifest): readonly Digest[] {
  const known = digestsByManifest.get(manifest)
  if (known) return known
  const digests = [...new Set(manifest.chunks.map(({ digest }) => digest))]
  digestsByManifest.set(manifest, digests)
  return digests
}
