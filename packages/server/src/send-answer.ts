import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from './answer.ts'

/** How much of a body that nobody wants is still read, so that its sender gets to the answer. */
export const discardBytesMax = 8 * 1024 * 1024
/** How long it is still read. */
export const discardMs = 3000

/**
 * Sends an answer, once. A sender that is still busy with its body gets the answer at once, and the connection is
 * closed only when the rest was read and thrown away: closing it earlier would reset it, and the answer would be lost.
 */
export function sendAnswer(req: IncomingMessage, res: ServerResponse, { status, headers, body }: Answer): void {
  if (res.headersSent || res.destroyed) return
  if (!hasUnreadBody(req)) {
    res.writeHead(status, headers).end(body)
    return
  }
  res.writeHead(status, { ...headers, Connection: 'close' })
  res.write(body)
  // ending the response closes the connection, so it stays open until then; Content-Length tells where it ends
  discardBody(req, () => res.end())
}

function hasUnreadBody(req: IncomingMessage): boolean {
  if (req.complete) return false
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  return coding !== undefined || (length !== undefined && Number(length) > 0)
}

function discardBody(req: IncomingMessage, done: () => void): void {
  let left = discardBytesMax
  const timer = setTimeout(finish, discardMs)
  function finish(): void {
    clearTimeout(timer)
    req.off('data', count)
    done()
  }
  function count(chunk: Uint8Array): void {
    left -= chunk.length
    if (left < 0) finish()
  }
  req.on('data', count)
  req.once('end', finish)
  req.once('close', finish)
  req.resume()
}
