import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { skipBody } from './node-parser.ts'
import { type Answer, isPieces, type Pieces } from './response.ts'

/** How much of an unwanted body is still read, so that its sender receives the response. */
export const discardBytesMax = 8 * 1024 * 1024
/** After so many chunks it is no longer parsed, because a chunk of one byte costs as much as a large one. */
const discardPiecesMax = 1024
/** How long it is still read. */
export const discardMs = 3000

/** How long a client may read nothing of a response: otherwise it would keep the response and its slot forever. */
export const stalledMs = 120_000

/**
 * Sends an answer, once. A sender that is still busy with its body gets the answer at once, and the connection is
 * closed only when the rest was read and thrown away: closing it earlier would reset it, and the answer would be lost.
 */
export function sendAnswer(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body }: Answer,
  { hasRest = hasUnreadBody(req) } = {},
): void {
  if (res.headersSent || res.destroyed) {
    if (isPieces(body)) body.return().catch(() => {})
    return
  }
  res.writeHead(status, hasRest ? { ...headers, Connection: 'close' } : headers)
  if (isPieces(body)) {
    sendPieces(req, res, body).catch(() => breakOff(req, res))
    return
  }
  if (hasRest) {
    res.write(body)
    // ending the response closes the connection, so it stays open until then; Content-Length tells where it ends
    discardBody(req, () => res.end())
  } else {
    res.end(body)
  }
  // Node's server resets this once the response is sent, and closes the connection when it expires
  if (req.socket.writableLength > 0) req.socket.setTimeout(stalledMs)
}

/** Sends piece by piece, as fast as the other side reads. */
async function sendPieces(req: IncomingMessage, res: ServerResponse, pieces: Pieces): Promise<void> {
  const rest = hasUnreadBody(req) ? new Promise<void>((resolve) => discardBody(req, resolve)) : undefined
  for await (const piece of pieces) {
    await send(piece, res, req.socket)
    if (req.socket.destroyed) return
  }
  await rest
  res.end()
}

/** Resolves when there is room for more, or nobody there any more. */
function send(piece: Uint8Array, res: ServerResponse, socket: Socket): Promise<unknown> | undefined {
  if (socket.destroyed) return undefined
  // a long answer must leave room for others, also where the other side reads as fast as it is sent
  if (res.write(piece)) return nextTurn()
  return new Promise<void>((resolve) => {
    const { timeout = 0 } = socket
    // after which Node's server closes it
    socket.setTimeout(stalledMs)
    function goOn(): void {
      socket.setTimeout(timeout)
      // the socket, because a response that is queued behind another one emits no 'close' when the connection closes
      socket.off('close', goOn)
      res.off('drain', goOn)
      resolve()
    }
    socket.once('close', goOn)
    res.once('drain', goOn)
  }).then(nextTurn)
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

/** Ends the connection in such a way that nobody takes what came for all there is. */
function breakOff(req: IncomingMessage, res: ServerResponse): void {
  // in HTTP/1.0 an orderly end is the end of the body; only TCP has another
  if (req.httpVersion === '1.0' && req.socket.remoteFamily && !('encrypted' in req.socket)) req.socket.resetAndDestroy()
  else res.destroy()
}

function hasUnreadBody(req: IncomingMessage): boolean {
  if (req.complete) return false
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  return coding !== undefined || (length !== undefined && Number(length) > 0)
}

function discardBody(req: IncomingMessage, done: () => void): void {
  let left = discardBytesMax
  let pieces = 0
  const timer = setTimeout(finish, discardMs)
  function finish(): void {
    clearTimeout(timer)
    req.off('data', countPiece)
    done()
  }
  function countPiece(piece: Uint8Array): void {
    countBytes(piece)
    if (++pieces === discardPiecesMax) skipBody(req.socket, countBytes)
  }
  function countBytes(bytes: Uint8Array): void {
    left -= bytes.length
    if (left < 0) finish()
  }
  req.on('data', countPiece)
  req.once('end', finish)
  req.once('close', finish)
  req.resume()
}
