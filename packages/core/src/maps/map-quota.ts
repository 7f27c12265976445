import { IngestError } from '../error.ts'
import type { Manifest } from './map.ts'

/** The default limit of a project's pending bytes: more than the largest map. */
export const pendingBytesMaxDefault = 16 * 2 ** 30

const manifestRowBytes = 256
const chunkRowsBytes = 160

/** What a pending manifest adds to the pending bytes: the size of its map, and about that of its rows in a store. */
export function declaredBytes({ size, chunks }: Manifest): number {
  return size + manifestRowBytes + chunkRowsBytes * chunks.length
}

/**
 * Checks a write that changes the pending bytes of a project from `before` to `after`. One that does not raise them is
 * never refused.
 *
 * @throws {IngestError} `map-quota-exceeded`
 */
export function checkPendingBytes(before: number, after: number, limit: number | undefined): void {
  if (limit === undefined || after <= before || after <= limit) return
  throw new IngestError(
    'map-quota-exceeded',
    `The unfinished map uploads of the project would hold ${after} bytes; the limit is ${limit}: complete or replace some, or wait until they expire after 7 idle days.`,
    { limit, actual: after },
  )
}
