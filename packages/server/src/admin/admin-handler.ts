import type { EmbeddedIngest } from '@ingest/core'
import { type ListenOptions, openListener, type Served } from '../listener/listener.ts'
import { guardLog } from '../log.ts'
import { type Handler, toHandler } from '../node-handler.ts'
import { type AdminOptions, createAdminRouter } from './admin-router.ts'

/**
 * A handler for the operator of an Ingest: metrics, health and keys. Metrics and health need no token: serve it on a
 * listener of its own that only operators reach, as `serve` does with the option `admin`.
 *
 * @throws {IngestError} `invalid-argument` for a short token
 */
export function createAdminHandler(ingest: EmbeddedIngest, options: AdminOptions = {}): Handler {
  return toHandler(createAdminRouter(ingest, options))
}

export interface ServeAdminOptions extends AdminOptions, ListenOptions {
  ingest: EmbeddedIngest
}

/**
 * Serves the admin handler on a listener of its own, by default on 127.0.0.1:8788. Abort `draining` when the public
 * server starts to drain.
 *
 * @throws {IngestError} `invalid-argument` for invalid options.
 */
export async function serveAdmin(options: ServeAdminOptions): Promise<Served> {
  const router = createAdminRouter(options.ingest, options)
  return openListener(router, options, { portDefault: 8788, lingerMs: 0, log: options.log && guardLog(options.log) })
}
