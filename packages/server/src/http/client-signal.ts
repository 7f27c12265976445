import type { IncomingMessage, ServerResponse } from 'node:http'
import { clientDisconnected } from './cancellation.ts'
import { isUnread } from './pipelining.ts'
import { discardBody, hasUnreadBody } from './send-response.ts'

/** How often a request checks whether its connection can still report a disconnect. */
const checkMs = 1000

/**
 * A signal that aborts when the connection of a request is closed before the end of its response. A closed connection
 * may look half-closed, and an unread connection does not report its close: such a request is aborted at the first
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
  // an unread body hides the close of the connection
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
