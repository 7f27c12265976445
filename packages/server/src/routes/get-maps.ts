import { type Ingest, IngestError } from '@ingest/core'
import { type Body, MapPage, MapStatus, toWire } from '@ingest/core/wire'
import { parseLimit, parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { json, mapId, pageOf, sampleStatus } from './operation.ts'
import type { ProjectRoute, RouteContext } from './route.ts'

/** Maximum number of maps of one page. */
export const mapsPageMax = 1_000

export const getMaps: ProjectRoute = {
  method: 'GET',
  path: '/v1/maps',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'getMaps',
    tag: 'maps',
    summary: 'status of maps',
    description:
      'With `placeId` and `buildId` the status of that map; with one or neither the maps of the project, by build, then place, in byte order.',
    parameters: [...mapId(false), ...pageOf(mapsPageMax)],
    responses: {
      200: {
        description: 'One map, or a page of them.',
        content: json({ anyOf: [MapStatus, MapPage] }, sampleStatus),
      },
    },
    codes: ['map-not-found', 'invalid-cursor'],
  },
  handle: readMaps,
}

async function readMaps({ request, ingest }: RouteContext): Promise<HttpResponse> {
  return jsonResponse(200, await findMaps(ingest, request.query))
}

async function findMaps(ingest: Ingest, query: string): Promise<Body<typeof MapStatus> | Body<typeof MapPage>> {
  const { limit, ...selected } = parseQuery(query, ['placeId', 'buildId', 'cursor', 'limit'])
  const { placeId, buildId, cursor } = selected
  if (placeId === undefined || buildId === undefined) {
    return toWire(MapPage, await ingest.listMaps({ ...selected, ...parseLimit(limit, mapsPageMax) }))
  }
  if (cursor !== undefined || limit !== undefined) {
    throw new IngestError('invalid-argument', 'placeId and buildId name one map: remove cursor and limit.')
  }
  const status = await ingest.getMap({ placeId, buildId })
  if (!status) throw new IngestError('map-not-found', 'No map was published for this place and build.')
  return toWire(MapStatus, status)
}
