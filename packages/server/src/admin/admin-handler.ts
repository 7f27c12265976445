import type { EmbeddedIngest } from '@ingest/core'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Handler } from '../node-handler.ts'

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

/**
 * A handler for the operator of an Ingest: metrics, health and keys. Metrics and health need no token: serve it on a
 * listener of its own that only operators reach, as `serveAdmin` does.
 *
 * @throws {IngestError} `invalid-argument` for a short token
 */
export function createAdminHandler(_ingest: EmbeddedIngest, _options: AdminOptions = {}): Handler {
  return (_req, res) => void res.writeHead(404).end()
}
