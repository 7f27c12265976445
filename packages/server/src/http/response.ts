import { randomUUID } from 'node:crypto'
import type { ErrorCode, IngestError } from '@ingest/core'
import type { BodyStream } from './stream.ts'

/** The HTTP status of every error code. */
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
  'store-unavailable': 503,
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

/** A response for node:http or the fetch API. */
export interface HttpResponse {
  status: number
  headers: Record<string, string>
  /** Not sent in response to HEAD; the headers describe it all the same. */
  body: string | Uint8Array | BodyStream
}

/** Whether a body is a stream. */
export function isStream<Stream extends AsyncIterable<Uint8Array>>(body: string | Uint8Array | Stream): body is Stream {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}

/** An id for one request, in its response and in the log. */
export const newRequestId: () => string = randomUUID

/** A response in JSON. */
export function jsonResponse<Value extends object>(status: number, value: Value): HttpResponse & { body: string } {
  const body = JSON.stringify(value)
  return {
    status,
    headers: { 'Content-Type': 'application/json', 'Content-Length': String(Buffer.byteLength(body)) },
    body,
  }
}

/** The `Retry-After` of a 429 or 503 whose error has none, in seconds. */
export const retryAfterSecondsDefault = 5
/** The same for `store-unavailable`: a failover takes seconds. */
const unavailableRetryAfterSeconds = 1

/** Their messages name paths and are for the operator: a client can only retry. */
const internalCodes: ReadonlySet<ErrorCode> = new Set([
  'disk-full',
  'store-closed',
  'store-damaged',
  'store-failed',
  'store-incompatible',
  'store-locked',
  'store-missing',
  'store-unavailable',
])

/**
 * An error as a problem document (RFC 9457), with `code`, `requestId` and `retryable`, and with `issues`, `limit`,
 * `actual` and `retryAfter` where the error has them. Every 429 and 503 has a `Retry-After`.
 */
export function problemResponse(
  error: IngestError,
  requestId: string,
  detail: string = publicDetail(error),
): HttpResponse & { body: string } {
  const status = statusByCode[error.code]
  const retryAfter = error.retryAfterSeconds ?? retryAfterDefault(error.code)
  const body = JSON.stringify({
    type: `urn:ingest:problem:${error.code}`,
    title: error.title,
    status,
    detail,
    code: error.code,
    requestId,
    // senders retry every 5xx
    retryable: status >= 500 || error.retryable,
    issues: error.issues,
    limit: error.limit,
    actual: error.actual,
    retryAfter,
  })
  const headers: Record<string, string> = {
    'Content-Type': 'application/problem+json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
  }
  if (retryAfter !== undefined) headers['Retry-After'] = String(retryAfter)
  // RFC 9110 section 11.6.1: every 401 has a challenge
  if (status === 401) headers['WWW-Authenticate'] = 'Ingestion-Key, Bearer realm="ingest"'
  return { status, headers, body }
}

function publicDetail({ code, message }: IngestError): string {
  return internalCodes.has(code) ? 'The store cannot do this now: try again later.' : message
}

function retryAfterDefault(code: ErrorCode): number | undefined {
  if (code === 'store-unavailable') return unavailableRetryAfterSeconds
  return statusByCode[code] === 503 || statusByCode[code] === 429 ? retryAfterSecondsDefault : undefined
}
