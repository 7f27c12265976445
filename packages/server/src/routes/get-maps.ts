import { type Ingest, IngestError, type MapPage, type MapPageOptions, type MapStatus } from '@ingest/core'
import { parseLimit, parseQuery } from '../http/query.ts'
import type { EdgeRequest } from '../http/request.ts'
import type { Reply } from '../http/response.ts'

/** The most maps of one page. */
export const mapsPageMax = 1_000

/**
 * What is known of one map, or a page of them.
 *
 * @throws {IngestError} `map-not-found`, `invalid-argument`, `invalid-cursor`
 */
export async function answerMaps(ingest: Ingest, { query }: EdgeRequest): Promise<Reply> {
  const body = JSON.stringify(await findMaps(ingest, query))
  return { status: 200, headers: { 'Content-Type': 'application/json' }, body }
}

async function findMaps(ingest: Ingest, query: string): Promise<MapStatus | MapPage> {
  const { placeId, buildId, cursor, limit } = parseQuery(query, ['placeId', 'buildId', 'cursor', 'limit'])
  if (placeId === undefined || buildId === undefined) {
    const options: MapPageOptions = {}
    if (placeId !== undefined) options.placeId = placeId
    if (buildId !== undefined) options.buildId = buildId
    if (cursor !== undefined) options.cursor = cursor
    const count = parseLimit(limit, mapsPageMax)
    if (count !== undefined) options.limit = count
    return ingest.listMaps(options)
  }
  if (cursor !== undefined || limit !== undefined) {
    throw new IngestError('invalid-argument', 'placeId and buildId name one map: cursor and limit do not go with them.')
  }
  const status = await ingest.getMap({ placeId, buildId })
  if (!status) throw new IngestError('map-not-found', 'Nothing was published for this place and build.')
  return status
}
