import type { EmbeddedIngest } from '@ingest/core'
import { createAdminRouter } from './admin/admin-router.ts'
import type { Address } from './listener/address.ts'
import { type ListenOptions, openListener, type Served } from './listener/listener.ts'
import { guardLog } from './log.ts'
import { createMetrics } from './metrics/metrics.ts'
import { createPublicRouter, type HandlerOptions } from './public-router.ts'
import { isTracing } from './requests/spans.ts'

/** Options of `serve`. */
export interface ServeOptions extends Omit<HandlerOptions, 'draining'>, ListenOptions {
  ingest: EmbeddedIngest
  /** The address for operators: metrics, health and keys, as served by `createAdminHandler`. Default: none. */
  admin?: AdminAddress
}

/** The address for operators. */
export interface AdminAddress extends Address {
  /** The token of the key API, at least 16 characters. Default: no key API. */
  token?: string
}

/** A server that is listening, with its address for operators. */
export interface ServedWithAdmin extends Served {
  admin?: Pick<Served, 'url' | 'port'>
  /**
   * Whether an SDK of OpenTelemetry was registered when the server began to listen; one registered later is used too.
   */
  isTraced: boolean
}

/** How long late requests get a 503, which clients retry elsewhere, before connections are refused. */
export const lingerMs = 500

/**
 * Serves `ingest` over HTTP/1.1, by default on 127.0.0.1:8787. With `admin`, it also measures, and serves operators on
 * a separate address, by default 127.0.0.1:8788. Resolves once both listen; rejects with Node's error if one cannot.
 * `close` drains; operators are served until the last request is done. Installs no signal handlers.
 *
 * @throws {IngestError} `invalid-argument` for invalid options
 */
export async function serve(options: ServeOptions): Promise<ServedWithAdmin> {
  const { admin: address, ...rest } = options
  if (!address) return { ...(await servePublic(rest, new AbortController())), isTraced: isTracing() }
  const { ingest, log, metrics = createMetrics(ingest) } = options
  const draining = new AbortController()
  const { token, ...listen } = address
  const adminOptions = {
    metrics,
    draining: draining.signal,
    ...(log && { log }),
    ...(token !== undefined && { token }),
  }
  const admin = await openListener(createAdminRouter(ingest, adminOptions), listen, {
    portDefault: 8788,
    lingerMs: 0,
    log: log && guardLog(log),
  })
  const served = await servePublic({ ...rest, metrics }, draining).catch(async (error) => {
    await admin.close()
    throw error
  })
  return {
    ...served,
    admin,
    isTraced: isTracing(),
    async close() {
      await served.close()
      await admin.close()
    },
  }
}

async function servePublic(options: Omit<ServeOptions, 'admin'>, draining: AbortController): Promise<Served> {
  const router = createPublicRouter(options.ingest, { ...options, draining: draining.signal })
  return openListener(router, options, {
    portDefault: 8787,
    lingerMs,
    log: options.log && guardLog(options.log),
    onDrain: () => draining.abort(),
  })
}
