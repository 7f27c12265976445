import type { Ingest } from '@ingest/core'
import type { Reply } from './answer.ts'
import type { EdgeRequest } from './edge-request.ts'
import { parseQuery } from './parse-query.ts'
import { timeOf } from './time-of.ts'

/**
 * What a project has stored, in numbers.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function answerStats(ingest: Ingest, projectId: string, { query }: EdgeRequest): Promise<Reply> {
  parseQuery(query, [])
  const stats = await ingest.stats(projectId)
  const body = JSON.stringify({ ...stats, firstAt: timeOf(stats.firstAt), lastAt: timeOf(stats.lastAt) })
  return { status: 200, headers: { 'Content-Type': 'application/json' }, body }
}
