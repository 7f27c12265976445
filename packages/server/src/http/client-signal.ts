import type { IncomingMessage, ServerResponse } from 'node:http'
import { clientDisconnected } from './cancellation.ts'
import { isUnread } from './pipelining.ts'
import { discardBody, hasUnreadBody } from './send-response.ts'

/** How often a request checks whether its connection can still report a disconnect. */
const checkMs = 1000

/**
 * A signal that aborts when the connection of a request is closed before the end of its response. A closed connection looks
 * like a half-closed one, and a connection that is not read reports no close: on these, a request is aborted at the first
 * check after {@link checkMs}.
 */
export function clientSignal(req: IncomingMessage, res: ServerResponse): AbortSignal {
  const controller = new AbortController()
  const { signal } = controller
  const leave = () => controller.abort(clientDisconnected())
  const { socket } = req
  if (res.destroyed || socket.destroyed) {
    leave()
    return signal
  }
  const timer = setInterval(() => {
    if (socket.readableEnded || isUnread(socket)) leave()
  }, checkMs)
  res.once('close', () => {
    clearInterval(timer)
    if (!res.writableFinished) leave()
  })
  // behind an unread body, the close of the connection is not reported
  if (!takesBody(req) && hasUnreadBody(req)) {
    discardBody(req, () => {
      if (!req.complete) leave()
    })
  }
  return signal
}

function takesBody({ method }: IncomingMessage): boolean {
  return method === 'POST' || method === 'PUT'
}
