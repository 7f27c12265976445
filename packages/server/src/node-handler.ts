import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { readBody } from './http/body.ts'
import { handleInTurn } from './http/pipelining.ts'
import { type BodyLimit, type EdgeRequest, parseRawHeaders } from './http/request.ts'
import { newRequestId, problemAnswer } from './http/response.ts'
import { sendAnswer } from './http/send-response.ts'
import { createRouter, type HandlerOptions, type Router } from './router.ts'

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

/** How many headers a request may have. */
export const headersMax = 100

/**
 * Responds to one request to a node server, after those before it on its connection. `awaitsContinue`: the client sends
 * the body after a 100.
 */
export function handleExchange(
  router: Router,
  req: IncomingMessage,
  res: ServerResponse,
  awaitsContinue = false,
): void {
  handleInTurn(req, res, () => respond(router, req, res, awaitsContinue))
}

function respond(router: Router, req: IncomingMessage, res: ServerResponse, awaitsContinue: boolean): void {
  const limit = headersLimit(req)
  if (req.rawHeaders.length > limit * 2) {
    refuseHeaders(req, res, limit)
    return
  }
  const headers = parseRawHeaders(req.rawHeaders)
  // RFC 9112 section 3.2
  if (headers.values.host === undefined && req.httpVersion === '1.1') {
    refuseExchange(req, res, new IngestError('malformed-request', 'A request needs a Host header.'))
    return
  }
  const request: EdgeRequest = {
    method: req.method ?? '',
    path: pathOf(req),
    query: queryOf(req),
    headers,
    readBody(gzip: boolean, limit: BodyLimit, memory?: Uint8Array) {
      if (awaitsContinue) res.writeContinue()
      return readBody(req, gzip, limit, memory)
    },
    onLeave: (action) => whenSilent(req.socket, action),
  }
  router
    .answer(request)
    .then((answer) => sendAnswer(req, res, answer))
    .catch(() => res.destroy())
}

/** Node drops the headers after about `maxHeadersCount` of them: with that many, some may be hidden. */
function headersLimit({ socket }: { socket: Socket & { server?: { maxHeadersCount?: number | null } } }): number {
  const count = socket.server?.maxHeadersCount
  return typeof count === 'number' && count > 0 ? Math.min(headersMax, count - 1) : headersMax
}

/** The message for headers that are too many, or too large: some versions of Node do not distinguish these. */
export function tooManyHeaders(limit: number): string {
  return `Send at most ${limit} headers, of 16,384 bytes together.`
}

/** The connection is closed, because one of the hidden headers may declare a body. */
function refuseHeaders(req: IncomingMessage, res: ServerResponse, limit: number): void {
  const error = new IngestError('headers-too-large', tooManyHeaders(limit), {
    limit,
    actual: req.rawHeaders.length / 2,
  })
  sendAnswer(req, res, problemAnswer(error, newRequestId()), { hasRest: true })
}

function whenSilent(socket: Socket, action: () => void): () => void {
  if (socket.destroyed || socket.readableEnded) action()
  socket.once('end', action).once('close', action)
  return () => void socket.off('end', action).off('close', action)
}

/** Answers one request with a refusal. */
export function refuseExchange(req: IncomingMessage, res: ServerResponse, error: IngestError): void {
  sendAnswer(req, res, problemAnswer(error, newRequestId()))
}

/** The path that a request is for, without the query; RFC 9112 section 3.2.2 allows a whole URL there. */
export function pathOf({ url = '' }: IncomingMessage): string {
  if (!url.startsWith('/') && URL.canParse(url)) return new URL(url).pathname
  const end = url.indexOf('?')
  return end === -1 ? url : url.slice(0, end)
}

function queryOf({ url = '' }: IncomingMessage): string {
  const start = url.indexOf('?')
  return start === -1 ? '' : url.slice(start + 1)
}
