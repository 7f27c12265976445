import type { ErrorCode } from '@ingest/core'

/** What became of one request, for metrics, logs and traces. Times are those of a monotonic clock, in milliseconds. */
export interface RequestRecord {
  requestId: string
  /** Of the header `traceparent`, or of the span of the request. */
  traceId?: string | undefined
  /** The path in the list of routes, or `unknown`: never the path of the request. */
  route: string
  method: string
  /** Of the client, behind trusted proxies; undefined if it is not known. */
  clientAddress(): string | undefined
  startedAt: number
  /** The id of the key, which is not secret; only if the request is logged. */
  keyId?: string | undefined
  /** Once the request is authenticated. */
  projectId?: string | undefined
  authenticatedAt?: number | undefined
  /** The rate limits that the route counts against. */
  budget?: string | undefined
  /** When the body of a batch was complete. */
  bodyAt?: number | undefined
  /** When the handler returned. */
  handledAt?: number | undefined
  /** The outcomes of a batch. */
  outcome?: { accepted: number; duplicates: number; rejected: number } | undefined
  code?: ErrorCode | undefined
  /** At the end of the response. */
  status: number
  endedAt: number
}
