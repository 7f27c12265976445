import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { readBody } from './http/body.ts'
import { clientSignal } from './http/client-signal.ts'
import { handleInTurn, isHttp1 } from './http/pipelining.ts'
import { type HttpRequest, parseRawHeaders } from './http/request.ts'
import { hasUnreadBody, sendResponse } from './http/send-response.ts'
import { mayHaveDropped } from './http/upgrade.ts'
import { createPublicRouter, type HandlerOptions } from './public-router.ts'
import type { Router } from './router.ts'

/** Responds to a request. If `next` is given, requests with unknown paths are passed on. */
export type Handler = (req: IncomingMessage, res: ServerResponse, next?: () => void) => void

/**
 * A handler for `node:http`, Express and other Connect stacks. Mount it before the body parsers:
 *
 * ```ts
 * createServer(createHandler(ingest)).listen(8787)
 * app.use(createHandler(ingest))
 * ```
 *
 * @throws {IngestError} `invalid-argument` for invalid options.
 */
export function createHandler(ingest: EmbeddedIngest, options: HandlerOptions = {}): Handler {
  return toHandler(createPublicRouter(ingest, options))
}

export function toHandler(router: Router): Handler {
  return (req, res, next) => {
    if (next && !router.hasRoute(pathOf(req))) next()
    else handleRequest(router, req, res)
  }
}

/** Maximum number of headers of a request. */
export const headersMax = 100

/**
 * Responds to a request, after earlier requests of its connection. `awaitsContinue`: the client sends its body after a
 * 100 response.
 */
export function handleRequest(router: Router, req: IncomingMessage, res: ServerResponse, awaitsContinue = false): void {
  handleInTurn(req, res, () => respond(router, req, res, awaitsContinue))
}

function respond(router: Router, req: IncomingMessage, res: ServerResponse, awaitsContinue: boolean): void {
  const limit = headersLimit(req)
  if (req.rawHeaders.length > limit * 2) {
    refuseHeaders(router, req, res, limit)
    return
  }
  const headers = parseRawHeaders(req.rawHeaders)
  // RFC 9112 section 3.2
  if (headers.values.host === undefined && req.httpVersion === '1.1') {
    const error = new IngestError('malformed-request', 'The request has no Host header.')
    sendResponse(req, res, router.refuse(error, req))
    return
  }
  // llhttp takes any version in the request line
  if (isHttp1(req) && req.httpVersionMajor !== 1) {
    const error = new IngestError('malformed-request', 'Send HTTP/1.1 or HTTP/1.0.')
    sendResponse(req, res, router.refuse(error, req), { hasRest: true })
    return
  }
  let signal: AbortSignal | undefined
  const request: HttpRequest = {
    method: req.method ?? '',
    path: pathOf(req),
    query: queryOf(req),
    headers,
    socket: req.socket,
    readBody(gzip, limit) {
      if (awaitsContinue) res.writeContinue()
      return readBody(req, gzip, limit)
    },
    // a function, as each object with a getter gets a hidden class of its own, which keeps the request alive until a
    // full garbage collection
    signal() {
      signal ??= clientSignal(req, res)
      return signal
    },
  }
  answer(router, request, req, res)
}

async function answer(router: Router, request: HttpRequest, req: IncomingMessage, res: ServerResponse): Promise<void> {
  try {
    const response = await router.respond(request)
    // the refusal may precede the parsing of a body that arrived with the headers; once it is parsed, the connection
    // can stay open
    if (req.headers['content-length'] !== undefined && hasUnreadBody(req)) await nextTurn()
    if (req.headers.upgrade !== undefined && mayHaveDropped(req)) res.shouldKeepAlive = false
    sendResponse(req, res, response)
  } catch {
    res.destroy()
  }
}

/** Node drops headers beyond `maxHeadersCount`: if the maximum is reached, some may be missing. */
function headersLimit({ socket }: { socket: Socket & { server?: { maxHeadersCount?: number | null } } }): number {
  const count = socket.server?.maxHeadersCount
  return typeof count === 'number' && count > 0 ? Math.min(headersMax, count - 1) : headersMax
}

/** For too many or too large headers: some versions of Node do not distinguish them. */
export function tooManyHeaders(limit: number): string {
  return `Send at most ${limit} headers, of 16,384 bytes in total.`
}

/** Closes the connection, because a dropped header may declare a body. */
function refuseHeaders(router: Router, req: IncomingMessage, res: ServerResponse, limit: number): void {
  const error = new IngestError('headers-too-large', tooManyHeaders(limit), {
    limit,
    actual: req.rawHeaders.length / 2,
  })
  sendResponse(req, res, router.refuse(error, req), { hasRest: true })
}

/** The path without the query. The request target may be a whole URL (RFC 9112 section 3.2.2). */
function pathOf({ url = '' }: IncomingMessage): string {
  if (!url.startsWith('/') && URL.canParse(url)) return new URL(url).pathname
  const end = url.indexOf('?')
  return end === -1 ? url : url.slice(0, end)
}

function queryOf({ url = '' }: IncomingMessage): string {
  const start = url.indexOf('?')
  return start === -1 ? '' : url.slice(start + 1)
}
