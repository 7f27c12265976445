import { type ErrorCode, errorTable, IngestError } from '@ingest/core'
import type { Cors } from './http/cors.ts'
import { type HttpRequest, parseRawHeaders } from './http/request.ts'
import { requestIdOf, traceIdOf } from './http/request-record.ts'
import { type HttpResponse, isStream, newRequestId, problemResponse } from './http/response.ts'
import type { TurnBudget } from './limits/turn-budget.ts'
import type { Log, LogError } from './log.ts'
import type { ObservedRequest, RequestObserver } from './requests/observe-requests.ts'

/** The routes of a listener, for requests of node:http and of the fetch API. */
export interface Router {
  hasRoute(path: string): boolean
  /** Never rejects. */
  respond(request: HttpRequest): Promise<HttpResponse>
  /** Returns the response to a request whose head cannot be parsed; measures and logs it like any other. */
  refuse(error: IngestError, head: UnreadableHead): HttpResponse & { body: string }
}

/** The known parts of a request whose head cannot be parsed. */
export interface UnreadableHead extends Pick<HttpRequest, 'socket'> {
  method?: string | undefined
  /** Alternating names and values. */
  rawHeaders?: readonly string[]
  /** Whether the request was routed: the router then measures it with its response. */
  isRouted?: boolean
}

/** One request of a route. */
export interface Call {
  request: HttpRequest
  /** The path segments that stand for the route's `{…}`. */
  params: readonly string[]
  /** Headers of the response, sent even if the handler throws. */
  headers: Record<string, string>
  /** Undefined if the request is not measured, logged or traced. */
  record: ObservedRequest | undefined
  /** Set once the request counts against a project's limits. */
  isAuthenticated: boolean
  /** Called with an error that ends the body after its start. */
  onError(error: unknown): void
}

export interface RouterOptions<Route> {
  routes: readonly Route[]
  /** May also throw. */
  run(route: Route, call: Call): Promise<HttpResponse>
  log: Log
  logError: LogError
  /** Throws to refuse a request regardless of its path. */
  check?(request: HttpRequest): void
  /** Limits the responses to requests without a valid key per turn of the event loop. Default: no limit. */
  anonymousTurns?: TurnBudget
  /** The detail of a problem document. Default: the message without parts that are only for the operator. */
  detailOf?(error: IngestError): string
  /** Default: nothing is observed, and clients' request ids are ignored. */
  observer?: RequestObserver
  draining?: AbortSignal | undefined
  cors?: Cors | undefined
  console?: ConsoleHandler | undefined
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

/** Bytes of a response that cost 1 of a turn's budget. */
const anonymousTurnBytes = 16_384

/** These paths, like preflights, are never refused because of the turn's budget. */
const probePaths: readonly string[] = ['/livez', '/readyz']

/** The route of all files of the console. */
const consolePath = '/console/'

export function createRouter<Route extends { method: string; path: string }>(options: RouterOptions<Route>): Router {
  const { observer, draining, cors } = options
  const findPath = indexRoutes(options.routes)

  async function respond(
    request: HttpRequest,
    requestId: string,
    found: FoundPath<Route> | undefined,
    record: ObservedRequest | undefined,
  ): Promise<HttpResponse> {
    function onError(error: unknown): IngestError {
      const ids = { requestId, traceId: record?.traceId ?? traceIdOf(request.headers) }
      const refusal = toResponseError(error, ids, options)
      if (record) record.code = refusal.code
      return refusal
    }
    function refuse(error: unknown): HttpResponse {
      const refusal = onError(error)
      return problemResponse(refusal, requestId, options.detailOf?.(refusal))
    }
    const headers: Record<string, string> = {}
    const call: Call = { request, params: found?.params ?? [], headers, record, isAuthenticated: false, onError }
    let response: HttpResponse
    try {
      response = await callRoute(call, found, options)
    } catch (error) {
      response = refuse(error)
    }
    if (!call.isAuthenticated) response = await waitForTurn(request, response).catch(refuse)
    if (draining?.aborted) headers.Connection = 'close'
    response.headers = { 'Cache-Control': 'no-store', 'X-Request-Id': requestId, ...response.headers, ...headers }
    cors?.addHeaders(request, response.headers)
    if (record) response.body = observer?.end(record, response) ?? response.body
    return response
  }

  /** Delays the response to a request without a valid key; its connection handles no further request until then. */
  async function waitForTurn(request: HttpRequest, response: HttpResponse): Promise<HttpResponse> {
    const { path, socket } = request
    const bytes = isStream(response.body) ? 0 : response.body.length
    try {
      await options.anonymousTurns?.(socket?.remoteAddress ?? '', Math.ceil((bytes + 1) / anonymousTurnBytes))
    } catch (error) {
      // behind a proxy all clients share one address: others must not fail a server's health checks or a page's
      // preflights
      const isPreflight = response.status === 204 && cors?.isPreflight(request)
      if (!probePaths.includes(path) && !isPreflight) throw error
    }
    return response
  }

  /** The path of the route, with `{…}` for its parameters; undefined if the path is unknown. */
  function pathOf(path: string, found: FoundPath<Route> | undefined): string | undefined {
    if (found) return found.path
    const isConsole = path.startsWith(consolePath) || path === '/console'
    return options.console && isConsole ? consolePath : undefined
  }

  return {
    hasRoute: (path) => pathOf(path, findPath(path)) !== undefined,
    respond(request) {
      const requestId = observer ? requestIdOf(request.headers) : newRequestId()
      const found = findPath(request.path)
      const record = observer?.begin(request, requestId, pathOf(request.path, found) ?? 'unknown')
      const run = () => respond(request, requestId, found, record)
      return record?.span ? record.span.run(run) : run()
    },
    refuse(error, { method = 'unknown', socket, rawHeaders = [], isRouted = false }) {
      const requestId = newRequestId()
      const { origin } = parseRawHeaders(rawHeaders).values
      const headers = parseRawHeaders(origin === undefined ? [] : ['Origin', origin])
      const request = { method, path: '', query: '', headers, ...(socket && { socket }) }
      const record = isRouted ? undefined : observer?.begin(request, requestId, 'unknown')
      const response = problemResponse(error, requestId)
      cors?.addHeaders(request, response.headers)
      if (record) {
        record.code = error.code
        observer?.end(record, response)
      }
      return response
    },
  }
}

/** Runs the route of a request, if its path and method have one. */
function callRoute<Route>(
  call: Call,
  found: FoundPath<Route> | undefined,
  { check, run, cors, console }: RouterOptions<Route>,
): HttpResponse | Promise<HttpResponse> {
  const { request, headers } = call
  const { method, path } = request
  check?.(request)
  if (!found) {
    // / redirects to console/, but not for a fetch framework, which has no socket: it may have removed a prefix, and
    // from /ops the redirect would leave it. With `next`, a handler has passed / on already.
    const isRoot = path === '/' && request.socket !== undefined
    const pagePath = isRoot && (method === 'GET' || method === 'HEAD') ? '/console' : path
    const page = console?.respond({ method, path: pagePath, headers: request.headers.values })
    if (page) return { ...page }
    throw new IngestError('not-found', 'There is nothing at this path.')
  }
  // HEAD is served by the route of GET
  const route = found.byMethod.get(method === 'HEAD' ? 'GET' : method)
  if (route) return run(route, call)
  const allowed = [...found.byMethod.keys()].flatMap((each) => (each === 'GET' ? ['GET', 'HEAD'] : [each])).join(', ')
  if (cors?.isPreflight(request)) return cors.preflightResponse(allowed)
  headers.Allow = allowed
  throw new IngestError('method-not-allowed', `This path takes ${allowed}.`)
}

/** The routes of one path, and the segments that stand for its `{…}`. */
interface FoundPath<Route> {
  path: string
  byMethod: ReadonlyMap<string, Route>
  params: readonly string[]
}

/** Finds the routes of a path; a segment of a path such as `{projectId}` takes any value. */
function indexRoutes<Route extends { method: string; path: string }>(
  routes: readonly Route[],
): (path: string) => FoundPath<Route> | undefined {
  const byPath = new Map<string, Map<string, Route>>()
  for (const route of routes) {
    byPath.set(route.path, (byPath.get(route.path) ?? new Map()).set(route.method, route))
  }
  const patterns = [...byPath]
    .filter(([path]) => path.includes('{'))
    .map(([path, byMethod]) => ({ path, pattern: new RegExp(`^${path.replaceAll(/{[^}]+}/g, '([^/]+)')}$`), byMethod }))
  return (path) => {
    const byMethod = byPath.get(path)
    if (byMethod) return { path, byMethod, params: [] }
    for (const { pattern, ...route } of patterns) {
      const match = pattern.exec(path)
      if (match) return { ...route, params: match.slice(1) }
    }
    return undefined
  }
}

/** Store failures with status 503 that need the operator's attention. */
const loggedCodes: ReadonlySet<ErrorCode> = new Set(['disk-full', 'store-failed', 'store-locked', 'store-unavailable'])

/** The error of the response. Errors of the server are logged, with the ids of the request. */
function toResponseError(
  error: unknown,
  { requestId, traceId }: { requestId: string; traceId: string | undefined },
  { log, logError }: { log: Log; logError: LogError },
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
