import { IngestError } from '../error.ts'
import type { MapSlot, Store } from '../store.ts'
import { type DecidedPublication, missingOf } from './decide-publication.ts'
import type { Digest, Manifest, MapContent, MapId, MapKey, MapStatus, PublishedMap } from './map.ts'

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

/** The complete map of a slot, to be read chunk by chunk; undefined when there is none. */
export function mapContent(store: Store, key: MapKey, { complete, frozenAt }: MapSlot): MapContent | undefined {
  if (!complete) return undefined
  const { digest, size, contentType, chunks } = complete.manifest

  async function* bytes(start = 0, end = size): AsyncGenerator<Uint8Array> {
    let at = 0
    for (const chunk of chunks) {
      const from = Math.max(start - at, 0)
      const to = Math.min(end - at, chunk.size)
      at += chunk.size
      if (from >= to) continue
      const found = await store.chunk(key.projectId, chunk.digest, (bytes) => Buffer.from(bytes.subarray(from, to)))
      if (!found) {
        const message = `The map of place "${key.placeId}" in build "${key.buildId}" was replaced while it was read: read it again.`
        throw new IngestError('map-replaced', message)
      }
      yield found
    }
  }

  const { placeId, buildId } = key
  return { placeId, buildId, digest, size, contentType, frozen: frozenAt !== undefined, bytes }
}
