import type { Digest, Manifest } from './map.ts'
import type { MapContents, MapSlot } from './map-store.ts'

/** What a freeze leaves of a map: it voids the pending replacement of a complete map, and pins everything else. */
export function contentsAfterFreeze<Contents extends MapContents>(contents: Contents): Contents {
  if (!contents.complete) return contents
  const { pending: _, ...rest } = contents
  return rest as Contents
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

/** Whether the pending manifest is pinned by a freeze: the first map of a frozen build, which can only be completed. */
export function isPinned({
  complete,
  pending,
  frozenAt,
}: { [Key in keyof MapSlot]?: MapSlot[Key] | MapContents['pending'] | undefined }): boolean {
  return frozenAt !== undefined && complete === undefined && pending !== undefined
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
