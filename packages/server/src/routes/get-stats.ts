import type { Ingest } from '@ingest/core'
import { parseLimit, parseQuery } from '../http/query.ts'
import type { EdgeRequest } from '../http/request.ts'
import type { Reply } from '../http/response.ts'
import type { ChargeRead } from './read.ts'

/** Milliseconds since 1970 as answers say them: in RFC 3339, in UTC. */
export function timeOf(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}

/** The most builds of one page. */
export const buildsPageMax = 1_000
/** What a read is charged for each build. */
export const buildReadBytes = 512

/**
 * A page of the builds of a project.
 *
 * @throws {IngestError} `invalid-argument`, `invalid-cursor`
 */
export async function answerBuilds(
  ingest: Ingest,
  { query }: EdgeRequest,
  _headers: Record<string, string>,
  charge: ChargeRead,
): Promise<Reply> {
  const { cursor, limit } = parseQuery(query, ['cursor', 'limit'])
  const count = parseLimit(limit, buildsPageMax)
  const { builds, next } = await ingest.listBuilds({
    ...(cursor !== undefined && { cursor }),
    ...(count !== undefined && { limit: count }),
  })
  charge(builds.length * buildReadBytes)
  const body = JSON.stringify({
    builds: builds.map((build) => ({ ...build, frozenAt: timeOf(build.frozenAt) })),
    next,
  })
  return { status: 200, headers: { 'Content-Type': 'application/json' }, body }
}

/** What a read is charged for counting the batches of the last minute. */
export const statsReadBytes = 1_048_576

/**
 * What a project has stored, in numbers.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function answerStats(
  ingest: Ingest,
  { query }: EdgeRequest,
  _headers: Record<string, string>,
  charge: ChargeRead,
): Promise<Reply> {
  parseQuery(query, [])
  charge(statsReadBytes)
  const stats = await ingest.getStats()
  charge(stats.builds * buildReadBytes)
  const body = JSON.stringify({ ...stats, firstAt: timeOf(stats.firstAt), lastAt: timeOf(stats.lastAt) })
  return { status: 200, headers: { 'Content-Type': 'application/json' }, body }
}
