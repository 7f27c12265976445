import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { checkRepeated, type HttpRequest } from '../http/request.ts'
import { type HttpResponse, newRequestId, problemResponse } from '../http/response.ts'
import { createErrorLog, errorsToConsole, guardLog, type Log } from '../log.ts'
import { type Metrics, metricsContentType } from '../metrics/metrics.ts'
import { allowedMethods, type Router, toIngestError } from '../router.ts'
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

type Handle = (context: AdminContext) => Promise<HttpResponse>

// biome-ignore format: a table
const routes: readonly [method: string, path: RegExp, access: 'open' | 'token', handle: Handle][] = [
  ['GET',    /^\/livez$/,                                         'open',  getLivez],
  ['GET',    /^\/readyz$/,                                        'open',  getReadyz],
  ['GET',    /^\/metrics$/,                                       'open',  getMetrics],
  ['GET',    /^\/v1\/projects$/,                                  'token', getProjects],
  ['GET',    /^\/v1\/projects\/([^/]+)\/keys$/,                   'token', getKeys],
  ['POST',   /^\/v1\/projects\/([^/]+)\/keys$/,                   'token', postKey],
  ['DELETE', /^\/v1\/projects\/([^/]+)\/keys\/([^/]+)$/,          'token', deleteKey],
  ['POST',   /^\/v1\/projects\/([^/]+)\/keys\/([^/]+)\/rotate$/,  'token', postRotation],
]

/** @throws {IngestError} `invalid-argument` for a short token */
export function createAdminRouter(ingest: EmbeddedIngest, options: AdminOptions): Router {
  const { token, metrics, draining } = options
  const log = guardLog(options.log ?? errorsToConsole)
  const checkToken = createTokenCheck(token, log)
  const logError = createErrorLog(log)
  const renderMetrics = shareRendering(metrics)
  return {
    hasRoute: (path) => routes.some(([, pattern]) => pattern.test(path)),
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
  const matching = routes.filter(([, path]) => path.test(request.path))
  if (matching.length === 0) throw new IngestError('not-found', 'There is nothing at this path.')
  const route = matching.find(([method]) => method === (request.method === 'HEAD' ? 'GET' : request.method))
  if (!route) {
    headers.Allow = allowedMethods(matching.map(([method]) => method))
    throw new IngestError('method-not-allowed', `This path takes ${headers.Allow}.`)
  }
  const [, path, access, handle] = route
  if (access === 'token') checkToken(request)
  checkRepeated(request.headers)
  return handle({ ...context, params: path.exec(request.path)?.slice(1) ?? [] })
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
