import type { IncomingMessage, ServerResponse } from 'node:http'
import type { EmbeddedIngest } from '@ingest/core'
import { createRouter, type HandlerOptions } from './create-router.ts'
import { handleExchange, pathOf } from './handle-exchange.ts'

/** Answers a request; with `next`, hands on what is for somebody else. */
export type Handler = (req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void

/**
 * The service as a handler for `node:http`, Express or any Connect stack, where it goes before the body parsers:
 *
 * ```ts
 * createServer(createHandler(ingest)).listen(8787)
 * app.use(createHandler(ingest))
 * ```
 *
 * @throws {IngestError} `invalid-argument` for rate limits that cannot be.
 */
export function createHandler(ingest: EmbeddedIngest, options: HandlerOptions = {}): Handler {
  const router = createRouter(ingest, options)
  return (req, res, next) => {
    if (next && !router.hasRoute(pathOf(req))) next()
    else handleExchange(router, req, res)
  }
}
