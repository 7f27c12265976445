import { randomUUID } from 'node:crypto'
import type { ErrorCode, IngestError } from '@ingest/core'

/** The HTTP status of every refusal. */
export const statusByCode: Readonly<Record<ErrorCode, number>> = {
  'batch-too-large': 413,
  'body-too-large': 413,
  'chunk-not-found': 404,
  'chunk-too-large': 413,
  'chunk-undeclared': 409,
  'connection-failed': 502,
  'digest-mismatch': 400,
  'disk-full': 503,
  draining: 503,
  'headers-too-large': 431,
  'internal-error': 500,
  'invalid-argument': 400,
  'invalid-cursor': 400,
  'invalid-envelope': 400,
  'invalid-publication': 400,
  'key-store-unavailable': 503,
  'malformed-body': 400,
  'malformed-request': 400,
  'map-frozen': 409,
  'map-not-found': 404,
  'map-quota-exceeded': 413,
  'map-replaced': 503,
  'method-not-allowed': 405,
  'not-found': 404,
  overloaded: 503,
  'precondition-failed': 412,
  'range-not-satisfiable': 416,
  'rate-limited': 429,
  'repeated-header': 400,
  'request-timeout': 408,
  'source-changed': 409,
  'store-closed': 503,
  'store-damaged': 500,
  'store-failed': 503,
  'store-incompatible': 500,
  'store-locked': 503,
  'store-missing': 500,
  'too-many-events': 413,
  unauthorized: 401,
  'unexpected-response': 502,
  'unknown-key': 404,
  'unsupported-coding': 400,
  'unsupported-media-type': 400,
}

/** A response, for any edge to send. */
export interface Answer {
  status: number
  headers: Record<string, string>
  /** Not sent for HEAD, whose headers tell of it all the same. */
  body: string | Uint8Array | Pieces
}

/** What is to be answered, before any of its body is read. */
export interface Reply {
  status: number
  headers: Record<string, string>
  body: string | Uint8Array | AsyncIterable<Uint8Array>
}

/** An answer in JSON. */
export interface JsonAnswer extends Answer {
  body: string
}

/** A body that is made while it is sent. Who does not read it to its end or its error calls `return`. */
export interface Pieces extends AsyncIterableIterator<Uint8Array> {
  return(): Promise<IteratorResult<Uint8Array>>
}

/** Whether a body is made while it is sent. */
export function isPieces(body: Answer['body']): body is Pieces {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}

/** An id for one request, by which its sender and the operator can speak of it. */
export const newRequestId: () => string = randomUUID

/** An answer in JSON that nobody may keep. */
export function jsonAnswer(status: number, value: object, requestId: string, type = 'application/json'): JsonAnswer {
  const body = JSON.stringify(value)
  return {
    status,
    headers: {
      'Content-Type': type,
      'Content-Length': String(Buffer.byteLength(body)),
      'Cache-Control': 'no-store',
      'X-Request-Id': requestId,
    },
    body,
  }
}

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
