import { IngestError } from '../error.ts'
import type { Manifest, MapContents, PendingTotals, UpdatedSlot } from '../store-types.ts'

/** Default limit of a project's pending bytes: larger than the largest map. */
export const pendingBytesMaxDefault = 16 * 2 ** 30
/** Maximum number of pending maps of a project: each publication of a manifest reads the rows of all. */
const pendingMapsMax = 1000

const manifestRowBytes = 256
const chunkRowsBytes = 160

/** The pending bytes of a manifest: the size of its map, plus about the size of its rows in a store. */
export function declaredBytes({ size, chunks }: Manifest): number {
  return size + manifestRowBytes + chunkRowsBytes * chunks.length
}

/** The pending bytes of a map. 0 once its build is frozen, because it can then only be completed. */
export function pendingBytesOf({ pending }: MapContents, frozenAt: number | undefined): number {
  return pending && frozenAt === undefined ? declaredBytes(pending.manifest) : 0
}

/**
 * Checks new contents of a slot of a project with these totals. A total never causes a refusal of contents that do not
 * raise it.
 *
 * @throws {IngestError} `map-quota-exceeded`
 */
export function checkPendingQuota(
  totals: PendingTotals,
  slot: UpdatedSlot,
  contents: MapContents,
  pendingBytesMax: number,
): void {
  const bytes = pendingBytesOf(contents, slot.frozenAt) - pendingBytesOf(slot, slot.frozenAt)
  if (bytes > 0) check('bytes', totals.bytes + bytes, pendingBytesMax)
  if (contents.pending && !slot.pending) check('manifests', totals.maps + 1, pendingMapsMax)
}

function check(unit: 'bytes' | 'manifests', actual: number, limit: number): void {
  if (actual <= limit) return
  throw new IngestError(
    'map-quota-exceeded',
    `The unfinished map uploads of the project would hold ${actual} ${unit}; the limit is ${limit}: complete or replace some, or wait until they expire after 7 idle days.`,
    { limit, actual },
  )
}
