import { type DecidedPublication, missingOf } from './decide-publication.ts'
import type { Digest, Manifest, MapId, MapStatus, PublishedMap } from './map.ts'
import type { MapSlot } from './store.ts'

/** What a publication answers. */
export function publishedMap(id: MapId, decided: DecidedPublication, frozen: boolean): PublishedMap {
  const { outcome, missing, manifest, publishedAt } = decided
  return {
    ...idOf(id),
    outcome,
    state: outcome === 'incomplete' ? 'incomplete' : 'complete',
    ...outlineOf(manifest),
    frozen,
    missing,
    publishedAt: timeOf(publishedAt),
  }
}

/** What is known of a map; undefined when nothing is published for it. `present` covers the chunks that are pending. */
export function mapStatus(id: MapId, slot: MapSlot, present: ReadonlySet<Digest>): MapStatus | undefined {
  const { frozenAt, complete, pending } = slot
  const shown = complete ?? pending
  if (!shown) return undefined
  const missing = pending ? missingOf(pending.manifest, present) : []
  return {
    ...idOf(id),
    state: complete ? 'complete' : 'incomplete',
    ...outlineOf(shown.manifest),
    frozen: frozenAt !== undefined,
    missing: complete ? [] : missing,
    publishedAt: timeOf(complete?.publishedAt),
    frozenAt: timeOf(frozenAt),
    pending: complete && pending ? { ...outlineOf(pending.manifest), missing } : null,
  }
}

function idOf({ placeId, buildId }: MapId): MapId {
  return { placeId, buildId }
}

function outlineOf({ digest, size, contentType, chunks }: Manifest) {
  return { digest, size, contentType, chunks: chunks.length }
}

function timeOf(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString()
}
