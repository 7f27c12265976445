import type { EmbeddedIngest } from '@ingest/core'
import type { ListenOptions, Served } from '../listener/listen-options.ts'
import type { AdminOptions } from './admin-handler.ts'

export interface ServeAdminOptions extends AdminOptions, ListenOptions {
  ingest: EmbeddedIngest
}

/**
 * Serves the admin handler on a listener of its own: by default 127.0.0.1:8788. Abort `draining` when the server of the
 * world starts to drain, and close this one after it, so that metrics and `/readyz` are served to the end.
 *
 * @throws {IngestError} `invalid-argument` for invalid options.
 */
export async function serveAdmin(_options: ServeAdminOptions): Promise<Served> {
  throw new Error('not yet')
}
