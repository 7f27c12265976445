import { type Ingest, IngestError } from '@ingest/core'
import { parseLimit, parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { RouteContext } from '../route.ts'
import type { Body, MapPage, MapStatus } from './bodies.ts'

/** The most maps of one page. */
export const mapsPageMax = 1_000

/**
 * `GET /v1/maps`: the status of one map, or a page of them.
 *
 * @throws {IngestError} `map-not-found`, `invalid-argument`, `invalid-cursor`
 */
export async function getMaps({ request, ingest }: RouteContext): Promise<HttpResponse> {
  return jsonResponse(200, await findMaps(ingest, request.query))
}

async function findMaps(ingest: Ingest, query: string): Promise<Body<typeof MapStatus> | Body<typeof MapPage>> {
  const { placeId, buildId, cursor, limit } = parseQuery(query, ['placeId', 'buildId', 'cursor', 'limit'])
  if (placeId === undefined || buildId === undefined) {
    const count = parseLimit(limit, mapsPageMax)
    return ingest.listMaps({
      ...(placeId !== undefined && { placeId }),
      ...(buildId !== undefined && { buildId }),
      ...(cursor !== undefined && { cursor }),
      ...(count !== undefined && { limit: count }),
    })
  }
  if (cursor !== undefined || limit !== undefined) {
    throw new IngestError('invalid-argument', 'placeId and buildId name one map: remove cursor and limit.')
  }
  const status = await ingest.getMap({ placeId, buildId })
  if (!status) throw new IngestError('map-not-found', 'No map was published for this place and build.')
  return status
}
