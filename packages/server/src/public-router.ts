import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { createCancellation, serverDraining } from './http/cancellation.ts'
import { createCors } from './http/cors.ts'
import { checkRepeated } from './http/request.ts'
import { createConcurrencyLimits } from './limits/concurrency.ts'
import { createRateLimiter, guardRateLimiter, type RateLimiter, unlimited } from './limits/rate-limiter.ts'
import type { RateLimits } from './limits/rate-limits.ts'
import { createTurnBudget, turnBudgets } from './limits/turn-budget.ts'
import { createErrorLog, errorsToConsole, guardLog, type Log, type LogError } from './log.ts'
import type { Metrics } from './metrics/metrics.ts'
import { createOpenapiRoute } from './openapi/get-openapi.ts'
import { observeRequests } from './requests/observe-requests.ts'
import { type ConsoleHandler, createRouter, type Router } from './router.ts'
import { deleteConsumer, getConsumer, getConsumers, putConsumer } from './routes/consumers.ts'
import { getActivity, getRejected } from './routes/get-activity.ts'
import { getEvents } from './routes/get-events.ts'
import { getChunk, getMapContent } from './routes/get-map-content.ts'
import { getMaps } from './routes/get-maps.ts'
import { getBuilds, getStats } from './routes/get-stats.ts'
import { getLivez, getReadyz } from './routes/health.ts'
import { postBatch } from './routes/post-batch.ts'
import { putChunks } from './routes/put-chunks.ts'
import { putMap } from './routes/put-map.ts'
import type { OpenRoute, ProjectRoute } from './routes/route.ts'
import { runRoute } from './run-route.ts'

/**
 * All routes, in the order of the OpenAPI document. To add a route, write its module and add it here: the router, the
 * OpenAPI document and docs/http-api.md follow.
 */
export const routes: readonly (ProjectRoute | OpenRoute)[] = [
  postBatch,
  getEvents,
  getConsumers,
  getConsumer,
  putConsumer,
  deleteConsumer,
  getMaps,
  putMap,
  getChunk,
  putChunks,
  getMapContent,
  getStats,
  getBuilds,
  getActivity,
  getRejected,
  getLivez,
  getReadyz,
  createOpenapiRoute(() => routes),
]

/** Options of `createHandler` and `toFetchHandler`. */
export interface HandlerOptions {
  /**
   * Limits each project, divided by the number of live servers of the store; `{}` for the default limits. Default: no
   * limits.
   */
  rateLimits?: RateLimits
  /** Limits each project instead of `rateLimits`. */
  rateLimiter?: RateLimiter
  /**
   * Receives errors of the server, warnings, a summary of each minute with traffic, and at `debug` each request.
   * Default: errors go to the console.
   */
  log?: Log
  /** Counts and times the requests. Default: nothing is measured. */
  metrics?: Metrics
  /**
   * Aborted when the server starts to drain: further requests under /v1 and to `/readyz` get a 503, connections are
   * closed after the response, and long polls end at once.
   */
  draining?: AbortSignal
  /**
   * The origins of web pages that may call the API, such as `https://app.example.com`, or `['*']` for every origin.
   * Cookies are never used. Default: none.
   */
  cors?: readonly string[]
  /** The result of `createConsole` of `@ingest/console`, served below `/console/`. Default: no console. */
  console?: ConsoleHandler
}

/** @throws {IngestError} `invalid-argument` for invalid limits. */
export function createPublicRouter(ingest: EmbeddedIngest, options: HandlerOptions = {}): Router {
  const { draining, console } = options
  const log = guardLog(options.log ?? errorsToConsole)
  const logError = createErrorLog(log)
  const services = {
    ingest,
    logError,
    limiter: chooseLimiter(ingest, options, logError),
    concurrency: createConcurrencyLimits(),
    turnBudgets: {
      requests: createTurnBudget(turnBudgets.requests),
      uploadBytes: createTurnBudget(turnBudgets.uploadBytes),
    },
    cancellation: createCancellation(draining),
  }
  return createRouter<ProjectRoute | OpenRoute>({
    routes,
    run(route, call) {
      const isDraining = draining?.aborted ?? false
      if (!('scope' in route)) {
        checkRepeated(call.request.headers)
        return route.handle({ ingest, isDraining, request: call.request })
      }
      if (isDraining) throw serverDraining()
      return runRoute(route, services, call)
    },
    anonymousTurns: createTurnBudget(turnBudgets.anonymous),
    log,
    logError,
    observer: observeRequests(ingest, { log, metrics: options.metrics }),
    draining,
    cors: options.cors?.length ? createCors(options.cors) : undefined,
    console,
  })
}

function chooseLimiter(
  ingest: EmbeddedIngest,
  { rateLimits, rateLimiter }: HandlerOptions,
  logError: LogError,
): RateLimiter {
  if (rateLimits && rateLimiter) {
    throw new IngestError('invalid-argument', 'Set rateLimits or rateLimiter, not both.')
  }
  if (rateLimiter) return guardRateLimiter(rateLimiter, logError)
  if (!rateLimits) return unlimited
  return createRateLimiter(rateLimits, ingest.registerServer())
}
