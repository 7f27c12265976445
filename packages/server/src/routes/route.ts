import type { EmbeddedIngest, Ingest, IngestError, Scope } from '@ingest/core'
import type { Wait } from '../http/cancellation.ts'
import type { HttpRequest } from '../http/request.ts'
import type { HttpResponse } from '../http/response.ts'
import type { ConcurrencyLimitName } from '../limits/concurrency.ts'
import type { Budget, RateLimiter } from '../limits/rate-limiter.ts'
import type { TurnBudget } from '../limits/turn-budget.ts'
import type { Call } from '../router.ts'
import type { Operation } from './operation.ts'

/** One request of an authenticated project that holds a slot. */
export interface RouteContext extends Pick<Call, 'request' | 'params' | 'headers' | 'record'> {
  ingest: Ingest
  /** The id of the request's key; null if unknown. */
  keyId: string | null
  limiter: RateLimiter
  /** The body of a request with the budget `maps`; its slots are released with that of the request. */
  upload: UploadBody | undefined
  /** Takes from the turn's budget for the body of a batch, as {@link TurnBudget}. @throws {IngestError} `overloaded` */
  beginBatch(bytes: number): Promise<void> | undefined
  /** Limits a wait after the complete body. For a route without a body, `runRoute` limits the whole handler. */
  wait: Wait
  /** Calls `cancel` when the client disconnects or the server drains. Returns a function that stops watching. */
  onCancel(cancel: (reason: IngestError) => void): () => void
}

export interface UploadBody {
  /** Takes from the turn's budget, as {@link TurnBudget}. @throws {IngestError} `overloaded` */
  receive(bytes: number): Promise<void> | undefined
  /** Takes a slot for a complete body. @throws {IngestError} `overloaded` */
  complete(): void
}

/** A response whose body, if it is a stream, has not been started. */
export interface RouteResponse {
  status: number
  headers: Record<string, string>
  body: string | Uint8Array | AsyncIterable<Uint8Array>
}

/**
 * The common part of routes, for the router and the OpenAPI document. HEAD is served by the route of GET, without a
 * body.
 */
export interface Endpoint {
  method: 'DELETE' | 'GET' | 'POST' | 'PUT'
  path: string
  operation: Operation
}

/** A route under /v1: the scope of its keys, the limits it counts against, and its handler. */
export interface ProjectRoute extends Endpoint {
  scope: Scope
  concurrency: ConcurrencyLimitName | ((request: HttpRequest) => ConcurrencyLimitName)
  budget: Budget
  handle(context: RouteContext): Promise<RouteResponse>
}

/** A route without credentials and limits, which is served even while the server drains. */
export interface OpenRoute extends Endpoint {
  handle(context: OpenContext): Promise<HttpResponse>
}

export interface OpenContext {
  ingest: EmbeddedIngest
  isDraining: boolean
  request: HttpRequest
}
