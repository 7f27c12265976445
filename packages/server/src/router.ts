import { type EmbeddedIngest, type ErrorCode, errorTable, IngestError } from '@ingest/core'
import { createCancellation, serverDraining } from './http/cancellation.ts'
import { type Cors, createCors } from './http/cors.ts'
import { allowedMethods, indexRoutes, methodNotAllowed, notFound, routeOf } from './http/find-route.ts'
import { type HttpRequest, parseRawHeaders } from './http/request.ts'
import { type HttpResponse, newRequestId, problemResponse } from './http/response.ts'
import { createBodyMemory } from './limits/body-memory.ts'
import { createConcurrencyLimits } from './limits/concurrency.ts'
import { guardRateLimiter } from './limits/guarded-limiter.ts'
import { createRateLimiter, type RateLimiter, unlimited } from './limits/rate-limiter.ts'
import type { RateLimits } from './limits/rate-limits.ts'
import { createTurnBudget, turnBudgets } from './limits/turn-budget.ts'
import { createErrorLog, errorsToConsole, guardLog, type Log, type LogError } from './log.ts'
import type { Metrics } from './metrics/metrics.ts'
import { type ObservedRequest, observeRequests } from './requests/observe-requests.ts'
import { requestIdOf, traceIdOf } from './requests/request-id.ts'
import { type OpenRoute, type ProjectRoute, runRoute, type Services } from './route.ts'
import { openRoutes, projectRoutes } from './routes.ts'

export interface HandlerOptions {
  /**
   * Limits each project, divided by the number of live servers of the store; `{}` for the default limits. Default: no
   * limits.
   */
  rateLimits?: RateLimits
  /** Limits each project in place of `rateLimits`. */
  rateLimiter?: RateLimiter
  /**
   * Receives errors of the server, warnings, a summary of each minute with traffic, and at `debug` each request. Default:
   * errors go to the console.
   */
  log?: Log
  /** Counts and times the requests. Default: nothing is measured. */
  metrics?: Metrics
  /**
   * Aborted when the server starts to drain: further requests under /v1 get a 503, `/readyz` is a 503, connections are
   * closed after the response, and long polls end at once.
   */
  draining?: AbortSignal
  /**
   * The origins of web pages that may call the API, such as `https://app.example.com`, or `['*']` for every origin.
   * Cookies are never used. Default: none.
   */
  cors?: readonly string[]
  /** What `createConsole` of `@ingest/console` returns, served below `/console/`. Default: no console. */
  console?: ConsoleHandler
}

/** Serves the files of a page, without credentials and limits. */
export interface ConsoleHandler {
  /** Undefined for a path outside of `/console/`. */
  respond(request: {
    method: string
    path: string
    headers: { readonly 'accept-encoding'?: string; readonly 'if-none-match'?: string }
  }): { status: number; headers: Record<string, string>; body: Uint8Array } | undefined
}

/** Every route, for requests of node:http and of the fetch API. */
export interface Router {
  hasRoute(path: string): boolean
  /** Never rejects. */
  respond(request: HttpRequest): Promise<HttpResponse>
  /** Returns the response to a request whose head cannot be parsed, and measures and logs it like any other. */
  refuse(error: IngestError, head: UnreadableHead): HttpResponse & { body: string }
}

/** What is known of a request whose head cannot be parsed. */
export interface UnreadableHead extends Pick<HttpRequest, 'socket'> {
  method?: string | undefined
}

type Run = (
  services: Services & { isDraining(): boolean },
  request: HttpRequest,
  headers: Record<string, string>,
  watch: { record: ObservedRequest | undefined; onError(error: unknown): void },
) => Promise<HttpResponse>

const findPath = indexRoutes<ProjectRoute | OpenRoute>([...projectRoutes, ...openRoutes])

/** @throws {IngestError} `invalid-argument` for invalid limits. */
export function createRouter(ingest: EmbeddedIngest, options: HandlerOptions = {}): Router {
  const { draining } = options
  const log = guardLog(options.log ?? errorsToConsole)
  const logError = createErrorLog(log)
  const services = {
    ingest,
    logError,
    limiter: chooseLimiter(ingest, options, logError),
    concurrency: createConcurrencyLimits(),
    bodyMemory: createBodyMemory(),
    turnBudgets: {
      requests: createTurnBudget(turnBudgets.requests),
      uploadBytes: createTurnBudget(turnBudgets.uploadBytes),
    },
    cancellation: createCancellation(draining),
    isDraining: () => draining?.aborted ?? false,
  }
  const cors = options.cors?.length ? createCors(options.cors) : undefined
  const observer = observeRequests(ingest, { log, metrics: options.metrics })

  async function respond(request: HttpRequest, requestId: string, record?: ObservedRequest): Promise<HttpResponse> {
    const headers: Record<string, string> = {}
    function onError(error: unknown): IngestError {
      const refusal = toIngestError(error, requestId, {
        log,
        logError,
        traceId: record?.traceId ?? traceIdOf(request.headers),
      })
      if (record) record.code = refusal.code
      return refusal
    }
    let response: HttpResponse
    try {
      const run = findRoute(request, headers, { cors, console: options.console })
      response = await run(services, request, headers, { record, onError })
    } catch (error) {
      response = problemResponse(onError(error), requestId)
    }
    if (services.isDraining()) headers.Connection = 'close'
    response.headers = { 'Cache-Control': 'no-store', 'X-Request-Id': requestId, ...response.headers, ...headers }
    cors?.addHeaders(request, response.headers)
    return response
  }

  function pathOf(path: string): string | undefined {
    if (findPath(path)) return path
    return options.console && isConsolePath(path) ? consolePath : undefined
  }

  return {
    hasRoute: (path) => pathOf(path) !== undefined,
    respond(request) {
      const requestId = requestIdOf(request.headers)
      const record = observer.begin(request, requestId, pathOf(request.path) ?? 'unknown')
      if (!record) return respond(request, requestId)
      const run = () => respond(request, requestId, record)
      return (record.span ? record.span.run(run) : run()).then((response) => {
        response.body = observer.end(record, response)
        return response
      })
    },
    refuse(error, { method = 'unknown', socket }) {
      const requestId = newRequestId()
      const request = { method, path: '', query: '', headers: parseRawHeaders([]), ...(socket && { socket }) }
      const record = observer.begin(request, requestId, 'unknown')
      const response = problemResponse(error, requestId)
      if (record) {
        record.code = error.code
        observer.end(record, response)
      }
      return response
    },
  }
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

/** A route under /v1 refuses while the server drains. */
function runnerOf(route: ProjectRoute | OpenRoute): Run {
  return (services, request, headers, watch) => {
    const isDraining = services.isDraining()
    if (!('scope' in route)) return route.handle({ ingest: services.ingest, isDraining, request })
    if (isDraining) throw serverDraining()
    return runRoute(route, services, request, headers, watch)
  }
}

/** The route of all files of the console. */
const consolePath = '/console/'

function isConsolePath(path: string): boolean {
  return path.startsWith(consolePath) || path === '/console'
}

function findRoute(
  request: HttpRequest,
  headers: Record<string, string>,
  { cors, console }: { cors: Cors | undefined; console: ConsoleHandler | undefined },
): Run {
  const { path, method } = request
  const found = findPath(path)
  if (!found) {
    const page = console?.respond({ method, path, headers: request.headers.values })
    if (page) return async () => ({ ...page })
    throw notFound()
  }
  const route = routeOf(found, method)
  if (route) return runnerOf(route)
  const allowed = allowedMethods(found)
  if (cors?.isPreflight(request)) return async () => cors.preflightResponse(allowed)
  headers.Allow = allowed
  throw methodNotAllowed(allowed)
}

/** Failures of the store that are a 503 and need the attention of its operator. */
const loggedCodes: ReadonlySet<ErrorCode> = new Set(['disk-full', 'store-failed', 'store-locked', 'store-unavailable'])

/** The error of the response. Errors of the server are logged, with the id of the request. */
export function toIngestError(
  error: unknown,
  requestId: string,
  { log, logError, traceId }: { log: Log; logError: LogError; traceId?: string | undefined },
): IngestError {
  const ids = traceId === undefined ? { requestId } : { requestId, traceId }
  if (!(error instanceof IngestError)) {
    log.error({ err: error, ...ids }, 'request failed')
    return new IngestError('internal-error', 'The server failed unexpectedly: try again later.')
  }
  if (errorTable[error.code].status === 500 || loggedCodes.has(error.code)) {
    logError(error.code, { err: error, ...ids }, 'request refused')
  }
  return error
}
