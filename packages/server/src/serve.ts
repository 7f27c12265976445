import type { EmbeddedIngest } from '@ingest/core'
import { type ListenOptions, openListener, type Served } from './listener/listener.ts'
import { guardLog } from './log.ts'
import { createRouter, type HandlerOptions } from './router.ts'

export interface ServeOptions extends Omit<HandlerOptions, 'draining'>, ListenOptions {
  ingest: EmbeddedIngest
}

/** How long late requests get a 503, which clients retry elsewhere, before connections are refused. */
export const lingerMs = 500

/**
 * Serves `ingest` over HTTP/1.1, by default on 127.0.0.1:8787. Resolves once it listens; rejects with Node's error if it
 * cannot. Installs no signal handlers.
 *
 * @throws {IngestError} `invalid-argument` for invalid options.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const draining = new AbortController()
  const router = createRouter(options.ingest, { ...options, draining: draining.signal })
  return openListener(router, options, {
    portDefault: 8787,
    lingerMs,
    log: options.log && guardLog(options.log),
    onDrain: () => draining.abort(),
  })
}
