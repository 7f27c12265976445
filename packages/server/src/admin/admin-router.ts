import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { checkRepeated, type HttpRequest } from '../http/request.ts'
import type { HttpResponse } from '../http/response.ts'
import { createErrorLog, errorsToConsole, guardLog, type Log } from '../log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { type Handler, toHandler } from '../node-handler.ts'
import { createRouter, type Router } from '../router.ts'
import { getLivez, getReadyz } from '../routes/health.ts'
import { createTokenCheck } from './admin-token.ts'
import { deleteKey, getKeys, getProjects, type KeysContext, postKey, postRotation } from './keys.ts'

/** Options of `createAdminHandler`. */
export interface AdminOptions {
  /** The metrics that `GET /metrics` returns. Default: it responds with 404. */
  metrics?: Pick<Metrics, 'render' | 'contentType'>
  /** The bearer token of the key API, at least 16 characters. Default: the key API responds with 404. */
  token?: string
  /** Receives errors of the server, changes of keys, and wrong tokens. Default: errors go to the console. */
  log?: Log
  /** Aborted when the server starts to drain: `/readyz` responds with 503. */
  draining?: AbortSignal
}

interface AdminContext extends KeysContext {
  metrics: AdminOptions['metrics']
  isDraining: boolean
}

interface AdminRoute {
  method: string
  path: string
  access: 'open' | 'token'
  handle(context: AdminContext): Promise<HttpResponse>
}

/**
 * Handlers do not get the signal of their request: each reads or writes at most 1,000 keys of one project, or lists
 * ids.
 */
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

/**
 * A handler for operators: metrics, health and keys. Metrics and health need no token: serve it on a separate listener
 * that only operators can reach, as `serve` does with the option `admin`.
 *
 * @throws {IngestError} `invalid-argument` for a short token
 */
export function createAdminHandler(ingest: EmbeddedIngest, options: AdminOptions = {}): Handler {
  return toHandler(createAdminRouter(ingest, options))
}

/** @throws {IngestError} `invalid-argument` for a short token */
export function createAdminRouter(ingest: EmbeddedIngest, options: AdminOptions): Router {
  const { token, metrics, draining } = options
  const log = guardLog(options.log ?? errorsToConsole)
  const checkToken = createTokenCheck(token, log)
  return createRouter<AdminRoute>({
    routes,
    check: checkHost,
    async run(route, { request, params, headers }) {
      if (route.access === 'token') checkToken(request, headers)
      checkRepeated(request.headers)
      const isDraining = draining?.aborted ?? false
      return route.handle({ ingest, log, request, params, metrics, isDraining })
    },
    log,
    logError: createErrorLog(log),
    detailOf: operatorDetail,
  })
}

const loopbackAddress = /^(?:::ffff:)?127\.|^::1$/
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

/**
 * Against DNS rebinding: a web page could make its own name resolve to this machine and read the metrics through a
 * browser. On a loopback address, only requests for loopback names are served.
 */
function checkHost({ socket, headers }: HttpRequest): void {
  const { host = '' } = headers.values
  if (!loopbackAddress.test(socket?.localAddress ?? '') || loopbackHost.test(host)) return
  throw new IngestError('malformed-request', 'This address serves loopback names only: use localhost or 127.0.0.1.')
}

/** `GET /metrics`: the metrics in the text format of their registry. */
async function getMetrics({ metrics }: AdminContext): Promise<HttpResponse> {
  if (!metrics) throw new IngestError('not-found', 'This server measures nothing: pass metrics to its handlers.')
  const body = await metrics.render()
  return {
    status: 200,
    headers: {
      'Content-Type': metrics.contentType,
      'Content-Length': String(Buffer.byteLength(body)),
    },
    body,
  }
}

/** Includes the reason, which the public router hides. */
function operatorDetail({ message, cause }: IngestError): string {
  return cause instanceof Error && !message.includes(cause.message) ? `${message} ${cause.message}` : message
}
