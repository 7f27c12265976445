import { parseLimit, parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { RouteContext } from '../route.ts'
import type { Activity, Body, RecentRejections } from './bodies.ts'

/** The most rejected events of one response. */
export const rejectedMax = 1_000
/** The charge for grouping the rejected events, in bytes. */
export const rejectedReadBytes = 262_144

/**
 * `GET /v1/activity`: the outcomes of the last minutes.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function getActivity({ request, ingest }: RouteContext): Promise<HttpResponse> {
  parseQuery(request.query, [])
  const { since, servers, minutes } = await ingest.getActivity()
  return jsonResponse<Body<typeof Activity>>(200, {
    since: toIsoTime(since),
    servers,
    minutes: minutes.map((minute) => ({ ...minute, at: toIsoTime(minute.at) })),
  })
}

/**
 * `GET /v1/rejected`: the last rejected events, and all in memory by issue.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function getRejected({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  const { limit } = parseQuery(request.query, ['limit'])
  const count = parseLimit(limit, rejectedMax)
  await limiter.charge(ingest.projectId, { readBytes: rejectedReadBytes })
  const { since, total, groups, rejected } = await ingest.listRejected({ ...(count !== undefined && { limit: count }) })
  return jsonResponse<Body<typeof RecentRejections>>(200, {
    since: toIsoTime(since),
    total,
    groups: groups.map((group) => ({ ...group, lastAt: toIsoTime(group.lastAt) })),
    rejected: rejected.map((each) => ({ ...each, receivedAt: toIsoTime(each.receivedAt) })),
  })
}

/** Milliseconds since 1970 as RFC 3339, in UTC. */
function toIsoTime(at: number): string {
  return new Date(at).toISOString()
}
