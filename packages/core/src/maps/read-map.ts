import { IngestError } from '../error.ts'
import { decodeListCursor, encodeListCursor } from '../json/cursor.ts'
import { nextReadStep } from '../read-steps.ts'
import type { MapStore } from '../store.ts'
import type { ChunkRef, Manifest, MapId, MapKey, MapSlot } from '../store-types.ts'
import { checkLimit } from '../validation.ts'
import type { DecidedPublication } from './decide-publication.ts'
import type { MapContent, MapPage, MapPageOptions, MapStatus, PublishedMap } from './map.ts'
import { parseMapId } from './publication.ts'

const pageMax = 1_000
const pageDefault = 100
/**
 * A page ends early once the manifests of its maps have this many chunks, because all of them are read and may be
 * missing.
 */
const pageChunksMax = 20_000
/** Maximum number of maps of a page that are read in one turn of the event loop. */
const turnMapsMax = 10

/** The result of a publication. */
export function publishedMap(id: MapId, decided: DecidedPublication, frozen: boolean): PublishedMap {
  const { missing, manifest, publishedAt } = decided
  // for readers, an unverified map is incomplete
  const outcome = decided.outcome === 'verify' ? 'incomplete' : decided.outcome
  return {
    ...mapIdOf(id),
    outcome,
    state: outcome === 'incomplete' ? 'incomplete' : 'complete',
    ...outlineOf(manifest),
    frozen,
    missing,
    publishedAt: publishedAt ?? null,
  }
}

/** The status of a map; undefined if nothing is published for it. */
export function mapStatus(id: MapId, { frozenAt, complete, pending }: MapSlot): MapStatus | undefined {
  const shown = complete ?? pending
  if (!shown) return undefined
  const missing = [...(pending?.missing ?? [])]
  return {
    ...mapIdOf(id),
    state: complete ? 'complete' : 'incomplete',
    ...outlineOf(shown.manifest),
    frozen: frozenAt !== undefined,
    missing: complete ? [] : missing,
    publishedAt: complete?.publishedAt ?? null,
    frozenAt: frozenAt ?? null,
    pending: complete && pending ? { ...outlineOf(pending.manifest), missing } : null,
  }
}

function mapIdOf({ placeId, buildId }: MapId): MapId {
  return { placeId, buildId }
}

function outlineOf({ digest, size, contentType, chunks }: Manifest) {
  return { digest, size, contentType, chunks: chunks.length }
}

/** @throws {IngestError} `invalid-cursor`, `invalid-argument` */
export async function listMaps(store: MapStore, projectId: string, options: MapPageOptions): Promise<MapPage> {
  const { cursor, limit = pageDefault, placeId, buildId } = options
  checkLimit(limit, pageMax, 'maps')
  // the keys of a store cannot hold longer ids
  parseMapId({ placeId: placeId ?? 'any', buildId: buildId ?? 'any' })
  let last = cursor === undefined ? undefined : decodeListCursor('maps', projectId, cursor, parseListedId)
  const maps: MapStatus[] = []
  let chunks = 0
  while (maps.length < limit && chunks < pageChunksMax) {
    const count = Math.min(turnMapsMax, limit - maps.length)
    const entries = await store.maps(projectId, { placeId, buildId, after: last, limit: count + 1 })
    const some = entries.slice(0, count)
    maps.push(...some.flatMap(({ slot, ...id }) => mapStatus(id, slot) ?? []))
    if (entries.length === some.length) return { maps, next: null }
    chunks += some.reduce((sum, { slot }) => sum + chunkCount(slot), 0)
    last = some.at(-1)
    await nextReadStep(projectId)
  }
  return { maps, next: last ? encodeListCursor('maps', projectId, [last.placeId, last.buildId]) : null }
}

function parseListedId([placeId, buildId]: readonly unknown[]): MapId {
  return parseMapId({ placeId, buildId })
}

function chunkCount({ complete, pending }: MapSlot): number {
  return (complete?.manifest.chunks.length ?? 0) + (pending?.manifest.chunks.length ?? 0)
}

/** The complete map of a slot, read chunk by chunk; undefined if there is none. */
export function mapContent(store: MapStore, key: MapKey, { complete, frozenAt }: MapSlot): MapContent | undefined {
  if (!complete) return undefined
  const { digest, size, contentType, chunks } = complete.manifest

  async function readChunk({ digest: chunkDigest, size }: ChunkRef): Promise<Uint8Array> {
    const found = await store.readChunk(key.projectId, chunkDigest)
    if (found?.length === size) return found
    const { complete: current } = await store.map(key)
    if (current?.manifest.digest !== digest) {
      const message = `The map of place "${key.placeId}" in build "${key.buildId}" was replaced while it was read: read it again.`
      throw new IngestError('map-replaced', message)
    }
    // the map may have been replaced twice
    const again = await store.readChunk(key.projectId, chunkDigest)
    if (again?.length === size) return again
    const message = `The map of place "${key.placeId}" in build "${key.buildId}" has lost chunk ${chunkDigest}: restore a backup.`
    throw new IngestError('store-damaged', message)
  }

  async function* bytes(start = 0, end = size): AsyncGenerator<Uint8Array> {
    let at = 0
    for (const chunk of chunks) {
      const from = Math.max(start - at, 0)
      const to = Math.min(end - at, chunk.size)
      at += chunk.size
      if (from >= to) continue
      const found = await readChunk(chunk)
      yield found.subarray(from, to)
    }
  }

  const { placeId, buildId } = key
  return { placeId, buildId, digest, size, contentType, frozen: frozenAt !== undefined, bytes }
}
