import { randomUUID } from 'node:crypto'
import { isUint8Array } from 'node:util/types'
import { type ErrorCode, errorTable, type IngestError } from '@ingest/core'
import type { BodyStream } from './stream.ts'

/** A response for node:http or the fetch API. */
export interface HttpResponse {
  status: number
  headers: Record<string, string>
  /** Not sent in response to HEAD; the headers still describe it. */
  body: string | Uint8Array | BodyStream
}

/** Whether a body is a stream. */
export function isStream<Stream extends AsyncIterable<Uint8Array>>(body: string | Uint8Array | Stream): body is Stream {
  return typeof body !== 'string' && !isUint8Array(body)
}

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
/** The same for `store-unavailable`: a failover takes seconds, so retry soon. */
const unavailableRetryAfterSeconds = 1

/** Codes whose messages name paths and are for the operator: a client can only retry. */
const internalCodes: ReadonlySet<ErrorCode> = new Set([
  'disk-full',
  'permission-denied',
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
 * `actual`, `cursor` and `retryAfter` where the error has them. Every 429 and 503 has a `Retry-After`.
 */
export function problemResponse(
  error: IngestError,
  requestId: string,
  detail: string = publicDetail(error),
): HttpResponse & { body: string } {
  const status = errorTable[error.code].status
  const retryAfter = error.retryAfterSeconds ?? retryAfterDefault(error.code)
  const body = JSON.stringify({
    type: `urn:ingest:problem:${error.code}`,
    title: error.title,
    status,
    detail,
    code: error.code,
    requestId,
    retryable: internalCodes.has(error.code) || error.retryable,
    issues: error.issues,
    limit: error.limit,
    actual: error.actual,
    cursor: error.cursor,
    retryAfter,
  })
  const headers: Record<string, string> = {
    'Content-Type': 'application/problem+json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Request-Id': requestId,
  }
  if (retryAfter !== undefined) headers['Retry-After'] = String(retryAfter)
  // RFC 9110 section 11.6.1: a 401 must have a challenge
  if (status === 401) headers['WWW-Authenticate'] = 'Ingestion-Key, Bearer realm="ingest"'
  return { status, headers, body }
}

function publicDetail({ code, message }: IngestError): string {
  return internalCodes.has(code) ? 'The store cannot do this now: try again later.' : message
}

function retryAfterDefault(code: ErrorCode): number | undefined {
  if (code === 'store-unavailable') return unavailableRetryAfterSeconds
  const { status } = errorTable[code]
  return status === 503 || status === 429 ? retryAfterSecondsDefault : undefined
}
