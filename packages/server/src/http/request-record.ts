import type { ErrorCode } from '@ingest/core'
import type { RequestHeaders } from './request.ts'
import { newRequestId } from './response.ts'

/** The outcome of one request, for metrics, logs and traces. Times are those of a monotonic clock, in milliseconds. */
export interface RequestRecord {
  requestId: string
  /** From the header `traceparent`, or from the span of the request. */
  traceId?: string | undefined
  /** The path in the list of routes, or `unknown`; never the path of the request. */
  route: string
  method: string
  /** The address of the client as seen through trusted proxies; undefined if unknown. */
  clientAddress(): string | undefined
  startedAt: number
  /** The id of the key, which is not secret; set only if the request is logged. */
  keyId?: string | undefined
  /** Set once the request is authenticated. */
  projectId?: string | undefined
  authenticatedAt?: number | undefined
  /** The rate limits that the route counts against. */
  budget?: string | undefined
  /** Whether the response may be held until there is an event. */
  isLongPoll?: boolean | undefined
  /** Bytes of the body of an upload, uncompressed. */
  receivedBytes?: number | undefined
  /** Bytes of the body of the response. */
  sentBytes?: number | undefined
  /** When the body of a batch was complete. */
  bodyAt?: number | undefined
  /** When the handler returned. */
  handledAt?: number | undefined
  /** The outcomes of a batch's events. */
  outcome?: { accepted: number; duplicates: number; rejected: number } | undefined
  code?: ErrorCode | undefined
  /** Set at the end of the response. */
  status: number
  endedAt: number
}

/**
 * Contains no character that needs an escape in JSON, a URL or a terminal. A key sent here by mistake must not be
 * logged.
 */
const requestIdPattern = /^(?!.{0,128}ik_[0-9a-z]{8}_)[A-Za-z0-9._-]{1,128}$/

/** The `X-Request-Id` of a request if it is 1 to 128 of `A-Z a-z 0-9 . _ -`, else a new one. */
export function requestIdOf({ values }: RequestHeaders): string {
  const id = values['x-request-id']
  return id !== undefined && requestIdPattern.test(id) ? id : newRequestId()
}

/** The trace id of a valid `traceparent` (W3C Trace Context, section 3.2). */
export function traceIdOf({ values }: RequestHeaders): string | undefined {
  const text = values.traceparent
  if (text === undefined) return undefined
  const [, traceId, parentId] = traceparentPattern.exec(text) ?? []
  if (traceId === undefined || parentId === undefined) return undefined
  if (text.startsWith('ff') || (text.startsWith('00') && text.length !== traceparentLength)) return undefined
  return isZero(traceId) || isZero(parentId) ? undefined : traceId
}

const traceparentPattern = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/
/** The length in version 00; later versions may be longer. */
const traceparentLength = 55

function isZero(id: string): boolean {
  return /^0+$/.test(id)
}
