import type { ErrorCode, IngestError } from '@ingest/core'
import { type JsonAnswer, jsonAnswer } from './answer.ts'
import { statusByCode } from './status-by-code.ts'

/** What a sender is asked to wait when nobody knows how long a trouble will last. */
export const retryAfterSecondsDefault = 5

/** What is wrong inside is for the operator: the messages name paths, and a sender can do nothing but try again. */
const inside: ReadonlySet<ErrorCode> = new Set([
  'disk-full',
  'store-closed',
  'store-damaged',
  'store-failed',
  'store-incompatible',
  'store-locked',
  'store-missing',
])

/**
 * A refusal as a problem document (RFC 9457), with `code`, `requestId` and `retryable`, and with `issues`, `limit`,
 * `actual` and `retryAfter` where the error has them. Every 429 and 503 says when to come back.
 */
export function problemAnswer(error: IngestError, requestId: string): JsonAnswer {
  const status = statusByCode[error.code]
  const retryAfter =
    error.retryAfterSeconds ?? (status === 503 || status === 429 ? retryAfterSecondsDefault : undefined)
  const problem = {
    type: `urn:ingest:problem:${error.code}`,
    title: error.title,
    status,
    detail: inside.has(error.code) ? 'The store cannot do this now: try again later.' : error.message,
    code: error.code,
    requestId,
    // whatever it is, a sender retries a 5xx
    retryable: status >= 500 || error.retryable,
    issues: error.issues,
    limit: error.limit,
    actual: error.actual,
    retryAfter,
  }
  const answer = jsonAnswer(status, problem, requestId, 'application/problem+json')
  if (retryAfter !== undefined) answer.headers['Retry-After'] = String(retryAfter)
  // RFC 9110 section 11.6.1 wants a challenge with every 401
  if (status === 401) answer.headers['WWW-Authenticate'] = 'Ingestion-Key'
  return answer
}
