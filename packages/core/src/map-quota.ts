import { IngestError } from './error.ts'
import type { Manifest } from './map.ts'

/** The most pending bytes of a project, unless another limit is set: more than the largest map has. */
export const pendingBytesMaxDefault = 16 * 2 ** 30

const manifestRowBytes = 256
const chunkRowsBytes = 160

/** What a pending manifest counts besides its chunks: about what a store keeps to find them. */
export function manifestBytes({ chunks }: Manifest): number {
  return manifestRowBytes + chunkRowsBytes * chunks.length
}

/**
 * Checks a write that leaves a project with so many pending bytes; one that does not raise them may always pass.
 *
 * @throws {IngestError} `map-quota-exceeded`
 */
export function checkPendingBytes(before: number, after: number, limit: number | undefined): void {
  if (limit === undefined || after <= before || after <= limit) return
  throw new IngestError(
    'map-quota-exceeded',
    `Unfinished uploads of maps may hold ${limit} bytes of the project, and would hold ${after}: complete them, replace them, or wait until they were idle for 7 days.`,
    { limit, actual: after },
  )
}
