import { parseLimit, parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { RouteContext } from '../route.ts'
import type { Body, BuildPage, Stats } from './bodies.ts'

/** The most builds of one page. */
export const buildsPageMax = 1_000
/** The charge for each build, in bytes. */
export const buildReadBytes = 512
/** The charge for counting the batches of the last minute, in bytes. */
export const statsReadBytes = 1_048_576

/**
 * `GET /v1/stats`: the statistics of a project.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function getStats({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  parseQuery(request.query, [])
  await limiter.charge(ingest.projectId, { readBytes: statsReadBytes })
  const stats = await ingest.getStats()
  await limiter.charge(ingest.projectId, { readBytes: stats.builds * buildReadBytes })
  return jsonResponse<Body<typeof Stats>>(200, {
    ...stats,
    firstAt: toIsoTime(stats.firstAt),
    lastAt: toIsoTime(stats.lastAt),
  })
}

/**
 * `GET /v1/builds`: a page of the builds of a project.
 *
 * @throws {IngestError} `invalid-argument`, `invalid-cursor`
 */
export async function getBuilds({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  const { cursor, limit } = parseQuery(request.query, ['cursor', 'limit'])
  const count = parseLimit(limit, buildsPageMax)
  const { builds, next } = await ingest.listBuilds({
    ...(cursor !== undefined && { cursor }),
    ...(count !== undefined && { limit: count }),
  })
  await limiter.charge(ingest.projectId, { readBytes: builds.length * buildReadBytes })
  return jsonResponse<Body<typeof BuildPage>>(200, {
    builds: builds.map((build) => ({ ...build, frozenAt: toIsoTime(build.frozenAt) })),
    next,
  })
}

/** Milliseconds since 1970 as RFC 3339, in UTC. */
function toIsoTime(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
