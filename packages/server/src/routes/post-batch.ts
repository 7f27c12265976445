import { type BatchResult, batchBytesMax, type EmbeddedIngest } from '@ingest/core'
import { batchTooLarge } from '@ingest/core/internal'
import { authenticateRequest } from '../authenticate.ts'
import { checkBodyHeaders } from '../http/body-headers.ts'
import type { EdgeRequest } from '../http/request.ts'
import type { Places } from '../limits/concurrency.ts'
import type { RateLimiter } from '../limits/rate-limiter.ts'
import type { Log } from '../log.ts'

export interface BatchContext {
  ingest: EmbeddedIngest
  limiter: RateLimiter | undefined
  log: Log | undefined
  places: Places
}

const limit = { bytesMax: batchBytesMax, tooLarge: batchTooLarge }
const kinds = new Map([['application/json', { limit }]])
const noOptions = {}

/**
 * One batch: checks what can be known from the headers, in the order of the contract, reads the body and submits it.
 * `headers` are those of the answer, whatever it will be: the rate limits go in there, for authenticated senders only.
 *
 * @throws {IngestError}
 */
export async function receiveBatch(
  context: BatchContext,
  request: EdgeRequest,
  headers: Record<string, string>,
): Promise<BatchResult> {
  const projectId = await authenticateRequest(context, request.headers, 'events:write')
  const leave = context.places.enter(projectId)
  try {
    return await receiveFrom(projectId, context, request, headers)
  } finally {
    leave()
  }
}

async function receiveFrom(
  projectId: string,
  { ingest, limiter }: BatchContext,
  request: EdgeRequest,
  headers: Record<string, string>,
): Promise<BatchResult> {
  const { gzip } = checkBodyHeaders(request.headers, kinds)
  if (!limiter) return ingest.project(projectId).submitBatch(await request.readBody(gzip, limit), noOptions)
  try {
    // an undeclared length counts as 1, and the rest is owed
    const declared = Math.max(1, Number(request.headers.values['content-length'] ?? 0))
    limiter.takeRequest(projectId, declared)
    const body = await request.readBody(gzip, limit)
    const bytes = Math.max(declared, body.length)
    limiter.oweBatchBytes(projectId, bytes - declared)
    return await ingest
      .project(projectId)
      .submitBatch(body, { admit: (count) => limiter.takeEvents(projectId, count, bytes) })
  } finally {
    Object.assign(headers, limiter.headers(projectId))
  }
}
