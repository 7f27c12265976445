import type { EmbeddedIngest } from '@ingest/core'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Handler } from '../node-handler.ts'

export interface AdminOptions {
  /** What `GET /metrics` returns. Default: 404. */
  metrics?: Pick<Metrics, 'render'>
  /** The token of the API of keys, as `Authorization: Bearer`. Default: the API of keys is a 404. */
  token?: string
  log?: Log
  /** Aborted when the server starts to drain: `/readyz` is a 503. */
  draining?: AbortSignal
}

/** A handler for the operator of an Ingest: metrics, health and keys. Never mount it where the world can reach it. */
export function createAdminHandler(_ingest: EmbeddedIngest, _options: AdminOptions = {}): Handler {
  return (_req, res) => void res.writeHead(404).end()
}
