import type { Ingest } from '@ingest/core'
import type { Reply } from './answer.ts'
import type { EdgeRequest } from './edge-request.ts'
import { parseLimit, parseQuery } from './parse-query.ts'
import type { ChargeRead } from './receive-read.ts'
import { timeOf } from './time-of.ts'

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
  projectId: string,
  { query }: EdgeRequest,
  _headers: Record<string, string>,
  charge: ChargeRead,
): Promise<Reply> {
  const { cursor, limit } = parseQuery(query, ['cursor', 'limit'])
  const count = parseLimit(limit, buildsPageMax)
  const { builds, next } = await ingest.builds(projectId, {
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
