import { Activity, RecentRejections, toWire } from '@ingest/core/wire'
import { parseLimit, parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { comma, json, query } from '../operation.ts'
import type { ProjectRoute, RouteContext } from '../route.ts'

/** The most rejected events of one response. */
export const rejectedMax = 1_000
/** The charge for grouping the rejected events, in bytes. */
export const rejectedReadBytes = 262_144

export const getActivity: ProjectRoute = {
  method: 'GET',
  path: '/v1/activity',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'getActivity',
    tag: 'project',
    summary: 'outcomes by minute',
    description: 'Counted in memory, by the process that responds. See [GET /v1/activity](http-api.md#get-v1activity).',
    responses: {
      200: {
        description: 'The last 60 minutes.',
        content: json(Activity, {
          since: '2026-11-21T15:00:00.000Z',
          servers: 1,
          minutes: [{ at: '2026-11-21T16:05:00.000Z', accepted: 29800, duplicates: 200, rejected: 3 }],
        }),
      },
    },
  },
  handle: readActivity,
}

async function readActivity({ request, ingest }: RouteContext): Promise<HttpResponse> {
  parseQuery(request.query, [])
  return jsonResponse(200, toWire(Activity, await ingest.getActivity()))
}

export const getRejected: ProjectRoute = {
  method: 'GET',
  path: '/v1/rejected',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'listRejected',
    tag: 'project',
    summary: 'the last rejected events',
    description: 'In memory, of the process that responds. See [GET /v1/rejected](http-api.md#get-v1rejected).',
    parameters: [
      query(
        'limit',
        { type: 'integer', minimum: 1, maximum: rejectedMax, default: 100 },
        `events in \`rejected\`, 1 to ${comma(rejectedMax)}`,
      ),
    ],
    responses: {
      200: {
        description: 'Rejected events, newest first, and all in memory by issue.',
        content: json(RecentRejections, {
          since: '2026-11-21T15:00:00.000Z',
          total: 3,
          groups: [
            {
              code: 'invalid_type',
              path: '/buildId',
              message: 'Expected a string.',
              count: 3,
              lastAt: '2026-11-21T16:05:07.127Z',
            },
          ],
          rejected: [
            {
              receivedAt: '2026-11-21T16:05:07.127Z',
              index: 1,
              eventId: 'e-3',
              issues: [{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }],
            },
          ],
        }),
      },
    },
  },
  handle: readRejected,
}

async function readRejected({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  const { limit } = parseQuery(request.query, ['limit'])
  const options = parseLimit(limit, rejectedMax)
  await limiter.charge(ingest.projectId, { readBytes: rejectedReadBytes })
  const recent = await ingest.listRejected(options)
  return jsonResponse(200, toWire(RecentRejections, recent))
}
