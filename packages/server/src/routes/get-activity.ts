import { type ActivityOptions, type ActivityRangeOptions, IngestError } from '@ingest/core'
import { Activity, Rejections, toWire } from '@ingest/core/wire'
import { parseQuery, parseTimeParameter } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { json, query, time } from './operation.ts'
import type { ProjectRoute, RouteContext } from './route.ts'

const range = [
  query(
    'from',
    time,
    'an hour before `to` by default: RFC 3339 with a zone, or milliseconds. At most 31 days before `to`',
  ),
  query('to', time, 'now by default, in the same forms'),
]
const steps = [
  { at: '2026-11-21T16:04:00.000Z', accepted: 0, duplicates: 0, rejected: 0 },
  { at: '2026-11-21T16:05:00.000Z', accepted: 29800, duplicates: 200, rejected: 3 },
]
const exampleRange = { from: '2026-11-21T16:04:00.000Z', to: '2026-11-21T16:06:00.000Z', stepSeconds: 60 }

export const getActivity: ProjectRoute = {
  method: 'GET',
  path: '/v1/activity',
  scope: 'read',
  concurrency: 'downloads',
  budget: 'reads',
  operation: {
    operationId: 'getActivity',
    tag: 'project',
    summary: 'outcomes over time',
    description: 'Of all servers of the store. See [GET /v1/activity](http-api.md#get-v1activity).',
    parameters: [...range, query('by', { enum: ['type', 'build'] }, 'adds `groups`: by `type` or by `build`')],
    responses: {
      200: {
        description: 'The counts of each step.',
        content: json(Activity, {
          ...exampleRange,
          servers: 2,
          steps,
          groups: [
            {
              name: 'round.start',
              accepted: 29800,
              rejected: 3,
              firstAt: '2026-11-21T16:05:00.000Z',
              lastAt: '2026-11-21T16:05:00.000Z',
              counts: [0, 29800],
            },
          ],
        }),
      },
    },
  },
  handle: readActivity,
}

async function readActivity(context: RouteContext): Promise<HttpResponse> {
  const { by, ...times } = parseQuery(context.request.query, ['from', 'to', 'by'])
  const options = { ...parseRange(times), ...parseBy(by) }
  const activity = await chargeRows(context, (onScan) => context.ingest.getActivity({ ...options, onScan }))
  return jsonResponse(200, toWire(Activity, activity))
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
    summary: 'rejected events by cause',
    description: 'Of all servers of the store. See [GET /v1/rejected](http-api.md#get-v1rejected).',
    parameters: range,
    responses: {
      200: {
        description: 'The rejected events by issue, build, type and key.',
        content: json(Rejections, {
          ...exampleRange,
          total: 3,
          steps: steps.map(({ at, rejected }) => ({ at, rejected })),
          groups: [
            {
              code: 'invalid_type',
              path: '/buildId',
              message: 'Expected a string.',
              buildId: null,
              type: 'round.start',
              keyId: 'ab12cd34',
              keyName: 'live servers',
              count: 3,
              serverIds: [
                { serverId: 'eu-17', count: 2 },
                { serverId: null, count: 1 },
              ],
              firstAt: '2026-11-21T16:05:02.250Z',
              lastAt: '2026-11-21T16:05:07.127Z',
              counts: [0, 3],
              samples: [
                {
                  receivedAt: '2026-11-21T16:05:07.127Z',
                  eventId: 'e-3',
                  issues: [{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }],
                },
              ],
            },
          ],
          other: 0,
        }),
      },
    },
  },
  handle: readRejected,
}

async function readRejected(context: RouteContext): Promise<HttpResponse> {
  const options = parseRange(parseQuery(context.request.query, ['from', 'to']))
  const rejections = await chargeRows(context, (onScan) => context.ingest.listRejected({ ...options, onScan }))
  return jsonResponse(200, toWire(Rejections, rejections))
}

/** Charges the bytes of the rows that a call reads. */
async function chargeRows<T>(
  { ingest: { projectId }, limiter }: RouteContext,
  read: (onScan: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  let readBytes = 0
  try {
    return await read((bytes) => {
      readBytes += bytes
    })
  } finally {
    await limiter.charge(projectId, { readBytes })
  }
}

function parseRange({ from, to }: { from?: string; to?: string }): ActivityRangeOptions {
  return { ...parseTimeParameter('from', from), ...parseTimeParameter('to', to) }
}

function parseBy(by: string | undefined): Pick<ActivityOptions, 'by'> {
  if (by === undefined) return {}
  if (by === 'type' || by === 'build') return { by }
  throw new IngestError('invalid-argument', 'by must be type or build.')
}
