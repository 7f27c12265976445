import type { ErrorCode } from '@ingest/core'

/** The steps of a batch, in order. */
export const batchSteps = ['authenticate', 'body', 'decide', 'append', 'respond'] as const
export type BatchStep = (typeof batchSteps)[number]

/** What became of one request, for metrics, logs and traces. Times are those of a monotonic clock, in milliseconds. */
export interface RequestRecord {
  requestId: string
  /** The path in the table of routes; never the path of the request. */
  route: string
  method: string
  startedAt: number
  /** These two are undefined for a request that is not authenticated. */
  projectId?: string
  authenticatedAt?: number
  /** The credential of a request, authenticated or not. It must not be logged, only the id of a key in it. */
  credential?: string
  /** The limit that the route counts against. */
  budget?: string
  bodyAt?: number
  /** When the handler returned. */
  handledAt?: number
  /** The outcomes of a batch. */
  outcome?: { accepted: number; duplicates: number; rejected: number }
  /** At the end of the response: its status, its error, and the time. */
  status: number
  code?: ErrorCode
  endedAt: number
}
