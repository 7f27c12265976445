import type { Ingest } from '@ingest/core'
import type { Reply } from './answer.ts'
import { buildReadBytes } from './answer-builds.ts'
import type { EdgeRequest } from './edge-request.ts'
import { parseQuery } from './parse-query.ts'
import type { ChargeRead } from './receive-read.ts'
import { timeOf } from './time-of.ts'

/** What a read is charged for counting the batches of the last minute. */
export const statsReadBytes = 1_048_576

/**
 * What a project has stored, in numbers.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function answerStats(
  ingest: Ingest,
  projectId: string,
  { query }: EdgeRequest,
  _headers: Record<string, string>,
  charge: ChargeRead,
): Promise<Reply> {
  parseQuery(query, [])
  charge(statsReadBytes)
  const stats = await ingest.stats(projectId)
  charge(stats.builds * buildReadBytes)
  const body = JSON.stringify({ ...stats, firstAt: timeOf(stats.firstAt), lastAt: timeOf(stats.lastAt) })
  return { status: 200, headers: { 'Content-Type': 'application/json' }, body }
}
