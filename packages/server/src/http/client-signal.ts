import type { IncomingMessage, ServerResponse } from 'node:http'
import { clientDisconnected } from './cancellation.ts'
import { isDeaf } from './pipelining.ts'
import { discardBody, hasUnreadBody } from './send-response.ts'

/** How long a request may run for a client that cannot be heard. */
const unheardMs = 1000

/**
 * Aborts when the connection of a request is closed before the end of its response. A client that closes its connection
 * and one that closes only the half that it writes look the same, and of a connection that is not read nothing is seen:
 * such a request is aborted if it takes longer than {@link unheardMs}.
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
    if (socket.readableEnded || isDeaf(socket)) leave()
  }, unheardMs)
  res.once('close', () => {
    clearInterval(timer)
    if (!res.writableFinished) leave()
  })
  // what follows a body that nobody reads is not seen, either
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
