import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { IngestError } from '@ingest/core'
import { newRequestId } from './answer.ts'
import type { Router } from './create-router.ts'
import type { BodyLimit, EdgeRequest } from './edge-request.ts'
import { handleInTurn } from './handle-in-turn.ts'
import { problemAnswer } from './problem-answer.ts'
import { readBody } from './read-body.ts'
import { parseRawHeaders } from './request-headers.ts'
import { sendAnswer } from './send-answer.ts'

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
