import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { allowedMethods, indexRoutes, methodNotAllowed, notFound, routeOf } from '../http/find-route.ts'
import { checkRepeated, type HttpRequest } from '../http/request.ts'
import { type HttpResponse, newRequestId, problemResponse } from '../http/response.ts'
import { createErrorLog, errorsToConsole, guardLog, type Log } from '../log.ts'
import { type Metrics, metricsContentType } from '../metrics/metrics.ts'
import { type Router, toIngestError } from '../router.ts'
import { getLivez, getReadyz } from '../routes/health.ts'
import { type CheckToken, createTokenCheck } from './admin-token.ts'
import { deleteKey, getKeys, getProjects, type KeysContext, postKey, postRotation } from './keys.ts'

export interface AdminOptions {
  /** What `GET /metrics` returns. Default: 404. */
  metrics?: Pick<Metrics, 'render'>
  /** The token of the API of keys, as `Authorization: Bearer`: at least 16 characters. Default: that API is a 404. */
  token?: string
  /** Receives errors of the server, changes of keys, and wrong tokens. Default: errors go to the console. */
  log?: Log
  /** Aborted when the server starts to drain: `/readyz` is a 503. */
  draining?: AbortSignal
}

interface AdminContext extends KeysContext {
  renderMetrics: () => Promise<string>
  isDraining: boolean
}

interface AdminRoute {
  method: string
  path: string
  access: 'open' | 'token'
  handle(context: AdminContext): Promise<HttpResponse>
}

const routes: readonly AdminRoute[] = [
  { ...getLivez, access: 'open' },
  { ...getReadyz, access: 'open' },
  { method: 'GET', path: '/metrics', access: 'open', handle: getMetrics },
  { method: 'GET', path: '/v1/projects', access: 'token', handle: getProjects },
  { method: 'GET', path: '/v1/projects/{projectId}/keys', access: 'token', handle: getKeys },
  { method: 'POST', path: '/v1/projects/{projectId}/keys', access: 'token', handle: postKey },
  { method: 'DELETE', path: '/v1/projects/{projectId}/keys/{keyId}', access: 'token', handle: deleteKey },
  { method: 'POST', path: '/v1/projects/{projectId}/keys/{keyId}/rotate', access: 'token', handle: postRotation },
]
const findPath = indexRoutes(routes)

/** @throws {IngestError} `invalid-argument` for a short token */
export function createAdminRouter(ingest: EmbeddedIngest, options: AdminOptions): Router {
  const { token, metrics, draining } = options
  const log = guardLog(options.log ?? errorsToConsole)
  const checkToken = createTokenCheck(token, log)
  const logError = createErrorLog(log)
  const renderMetrics = shareRendering(metrics)
  return {
    hasRoute: (path) => findPath(path) !== undefined,
    async respond(request) {
      const requestId = newRequestId()
      const headers: Record<string, string> = { 'Cache-Control': 'no-store', 'X-Request-Id': requestId }
      try {
        const context = { ingest, log, request, params: [], renderMetrics, isDraining: draining?.aborted ?? false }
        const response = await runRoute(context, checkToken, headers)
        return { ...response, headers: { ...response.headers, ...headers } }
      } catch (error) {
        const refusal = toIngestError(error, requestId, { log, logError })
        const { status, body, headers: own } = problemResponse(refusal, requestId, operatorDetail(refusal))
        if (status === 401) own['WWW-Authenticate'] = 'Bearer realm="ingest-admin"'
        return { status, body, headers: { ...own, ...headers } }
      }
    },
    refuse: (error) => problemResponse(error, newRequestId()),
  }
}

function runRoute(context: AdminContext, checkToken: CheckToken, headers: Record<string, string>) {
  const { request } = context
  checkHost(request)
  const found = findPath(request.path)
  if (!found) throw notFound()
  const route = routeOf(found, request.method)
  if (!route) {
    headers.Allow = allowedMethods(found)
    throw methodNotAllowed(headers.Allow)
  }
  if (route.access === 'token') checkToken(request)
  checkRepeated(request.headers)
  return route.handle({ ...context, params: found.params })
}

const loopbackAddress = /^(?:::ffff:)?127\.|^::1$/
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

/**
 * A web page of a name that it makes resolve to this machine (DNS rebinding) could read the metrics through a browser
 * here: on a loopback address, only requests for loopback names are served.
 */
function checkHost({ socket, headers }: HttpRequest): void {
  const { host = '' } = headers.values
  if (!loopbackAddress.test(socket?.localAddress ?? '') || loopbackHost.test(host)) return
  throw new IngestError('malformed-request', 'This address serves loopback names only: use localhost or 127.0.0.1.')
}

/** `GET /metrics`: the metrics in the text format of Prometheus. */
async function getMetrics({ renderMetrics }: AdminContext): Promise<HttpResponse> {
  const body = await renderMetrics()
  return {
    status: 200,
    headers: {
      'Content-Type': metricsContentType,
      'Content-Length': String(Buffer.byteLength(body)),
    },
    body,
  }
}

/** Concurrent scrapes share one rendering. */
function shareRendering(metrics: AdminOptions['metrics']): () => Promise<string> {
  let rendering: Promise<string> | undefined
  return async () => {
    if (!metrics) throw new IngestError('not-found', 'This server measures nothing: pass metrics to its handlers.')
    rendering ??= metrics.render().finally(() => {
      rendering = undefined
    })
    return rendering
  }
}

/** With the reason, which the public listener hides. */
function operatorDetail({ message, cause }: IngestError): string {
  return cause instanceof Error && !message.includes(cause.message) ? `${message} ${cause.message}` : message
}
