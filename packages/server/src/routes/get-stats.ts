import { searchLengthMax } from '@ingest/core/internal'
import { BuildPage, Stats, toWire } from '@ingest/core/wire'
import { parseLimit, parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { json, pageOf, query } from './operation.ts'
import type { ProjectRoute, RouteContext } from './route.ts'

/** Maximum number of builds of one page. */
export const buildsPageMax = 1_000
/** The charge for each build, in bytes. */
export const buildReadBytes = 512
/** The charge for counting each map of a build, in bytes: a build may have any number. */
export const mapCountReadBytes = 64
/** The charge for a search, which looks at up to 10,000 builds, in bytes. */
export const searchReadBytes = 262_144
/** The charge for counting the batches of the last minute, in bytes. */
export const statsReadBytes = 1_048_576

export const getStats: ProjectRoute = {
  method: 'GET',
  path: '/v1/stats',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'getStats',
    tag: 'project',
    summary: 'counts of the project',
    description: 'The cost does not depend on how much is stored.',
    responses: {
      200: {
        description: 'The totals.',
        content: json(Stats, {
          events: 30000,
          batches: 300,
          bytes: 2509600,
          firstAt: '2026-11-21T16:04:59.684Z',
          lastAt: '2026-11-21T16:05:07.127Z',
          eventsPerSecond: 500,
        }),
      },
    },
  },
  handle: readStats,
}

async function readStats({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  parseQuery(request.query, [])
  await limiter.charge(ingest.projectId, { readBytes: statsReadBytes })
  return jsonResponse(200, toWire(Stats, await ingest.getStats()))
}

export const getBuilds: ProjectRoute = {
  method: 'GET',
  path: '/v1/builds',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'listBuilds',
    tag: 'project',
    summary: 'list builds and when each froze',
    description:
      'Builds that are frozen or have a published map: open ones, then the newest freeze first. A page of a search looks at 10,000 builds at most: it may have none although `next` names a further page.',
    parameters: [
      query(
        'search',
        { type: 'string', minLength: 1, maxLength: searchLengthMax },
        'only ids that contain this, in whatever case of A to Z',
      ),
      ...pageOf(buildsPageMax),
    ],
    responses: {
      200: {
        description: 'A page of builds.',
        content: json(BuildPage, {
          builds: [{ buildId: '2026.11.19', frozenAt: '2026-11-21T16:04:59.684Z', maps: 0 }],
          next: null,
        }),
      },
    },
    codes: ['invalid-cursor'],
  },
  handle: readBuilds,
}

async function readBuilds({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  const { limit, ...start } = parseQuery(request.query, ['search', 'cursor', 'limit'])
  if (start.search !== undefined) await limiter.charge(ingest.projectId, { readBytes: searchReadBytes })
  const page = await ingest.listBuilds({ ...start, ...parseLimit(limit, buildsPageMax) })
  const readBytes = page.builds.reduce((bytes, { maps }) => bytes + buildReadBytes + maps * mapCountReadBytes, 0)
  await limiter.charge(ingest.projectId, { readBytes })
  return jsonResponse(200, toWire(BuildPage, page))
}
