import { IngestError } from './error.ts'
import type { MapId } from './map.ts'
import { parseMapId } from './publication.ts'

/** Where a list of maps goes on: behind this map. */
export function encodeMapCursor({ placeId, buildId }: MapId): string {
  return Buffer.from(JSON.stringify([placeId, buildId])).toString('base64url')
}

/** @throws {IngestError} `invalid-cursor` for what {@link encodeMapCursor} has not made. */
export function decodeMapCursor(cursor: string): MapId {
  try {
    const [placeId, buildId] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    const id = parseMapId({ placeId, buildId })
    if (encodeMapCursor(id) === cursor) return id
  } catch {
    // said below
  }
  throw new IngestError('invalid-cursor', 'The cursor is not one that a list of maps has given out.')
}
