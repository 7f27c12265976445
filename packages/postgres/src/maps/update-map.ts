import { randomUUID } from 'node:crypto'
import {
  type Digest,
  declaredBytes,
  type Manifest,
  type MapChunks,
  type MapContents,
  type MapDecision,
  type MapKey,
  type MapSlot,
} from '@ingest/core'
import { byteaArray } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from '../projects/project-numbers.ts'
import { encodeChunks, encodeDigest, manifestHead, type SlotRow, toSlot } from './slot-row.ts'

interface FoundRow extends SlotRow {
  version: string | null
  complete: string | null
  pending: string | null
  /** A bit string with a 1 for each requested chunk that is stored; null if none was requested. */
  present: string | null
}

interface PutRow {
  outcome: 'written' | 'changed'
}

/**
 * After this many lost races, a decision is written even if chunks arrived after it. Otherwise a manifest could not be
 * published while another server receives its chunks.
 */
const exactRacesMax = 4

const emptyRow: FoundRow = {
  frozen_at: null,
  version: null,
  complete: null,
  complete_head: null,
  complete_chunks: null,
  published_at: null,
  pending: null,
  pending_head: null,
  pending_chunks: null,
  touched_at: null,
  missing: null,
  present: null,
}

/** A map as read by `query`, and which of the requested chunks are stored. */
export async function readMap(
  query: Database['query'],
  project: number | undefined,
  { buildId, placeId }: Omit<MapKey, 'projectId'>,
  digests: readonly Buffer[] = [],
): Promise<FoundRow> {
  if (project === undefined) return emptyRow
  const values = [project, buildId, Buffer.from(placeId), byteaArray(digests)]
  const [row] = await query<FoundRow>('map-slot', values)
  return row as FoundRow
}

/** Reads, decides and writes; repeats if the map has changed in between. */
export async function updateMap<T>(
  { database, numbers }: { database: Database; numbers: ProjectNumbers },
  key: MapKey,
  { digests: requested = [], uploads = [] }: MapChunks,
  decide: (slot: MapSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
): Promise<T> {
  const digests = [...new Set(requested)]
  const encoded = digests.map(encodeDigest)
  let { query } = database
  for (let races = 0; ; races++) {
    const found = await readMap(query, await numbers.find(key.projectId), key, encoded)
    const isPresent = (_: unknown, i: number) => found.present?.[i] === '1'
    const isAbsent = (_: unknown, i: number) => found.present?.[i] !== '1'
    const slot = toSlot(found)
    const { contents, result } = decide(slot, new Set(digests.filter(isPresent)))
    if (!contents) {
      if (query === database.queryConfirmed) return result
      query = database.queryConfirmed
      continue
    }
    const absent = races < exactRacesMax ? encoded.filter(isAbsent) : []
    const [put] = await database.query<PutRow>('put-map', [
      await numbers.create(key.projectId),
      key.buildId,
      Buffer.from(key.placeId),
      found.version,
      randomUUID(),
      found.frozen_at,
      byteaArray(encoded.filter(isPresent)),
      byteaArray(absent),
      ...contentsValues(found, slot, contents),
      byteaArray(uploads.map(({ digest }) => encodeDigest(digest))),
      byteaArray(uploads.map(({ bytes }) => bytes)),
    ])
    if (put?.outcome === 'written') return result
    numbers.forget(key.projectId)
  }
}

/** The contents as arguments of `put_map_1`; an unchanged manifest is not sent. */
function contentsValues(found: FoundRow, slot: MapSlot, { complete, pending }: MapContents): unknown[] {
  const known = new Map<Manifest | undefined, string | null>([
    [slot.complete?.manifest, found.complete],
    [slot.pending?.manifest, found.pending],
  ])
  const added: { id: string; manifest: Manifest }[] = []

  function idOf(manifest: Manifest | undefined): string | null {
    if (!manifest) return null
    const existing = known.get(manifest)
    // a manifest cannot be both complete and pending: the other one gets a copy
    known.delete(manifest)
    if (existing) return existing
    const id = randomUUID()
    added.push({ id, manifest })
    return id
  }

  return [
    idOf(complete?.manifest),
    complete?.publishedAt,
    idOf(pending?.manifest),
    pending?.touchedAt,
    added.map(({ id }) => id),
    added.map(({ manifest }) => manifestHead(manifest)),
    byteaArray(added.map(({ manifest }) => encodeChunks(manifest.chunks))),
    added.map(({ manifest }) => declaredBytes(manifest)),
  ]
}
