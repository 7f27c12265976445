import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { skipBody } from './node-parser.ts'
import { type HttpResponse, isStream } from './response.ts'
import type { BodyStream } from './stream.ts'

/** How many bytes of a refused body are discarded, so that its client receives the response. */
export const discardBytesMax = 8 * 1024 * 1024
/** After this many chunks the body is no longer parsed: a chunk of one byte costs as much as a large one. */
const discardChunksMax = 1024
/** How long a refused body is discarded. */
export const discardMs = 3000

/** How long a client may stop reading a response before its connection is closed: its body and a slot stay occupied. */
export const stalledMs = 120_000

/**
 * Sends a response unless another was sent. If the client is still sending a body, the response is sent at once, the
 * rest of the body is discarded, and then the connection is closed: an earlier close would reset the connection and
 * lose the response.
 */
export function sendResponse(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body }: HttpResponse,
  { hasRest = hasUnreadBody(req) } = {},
): void {
  if (res.headersSent || res.destroyed) {
    if (isStream(body)) body.return().catch(() => {})
    return
  }
  res.writeHead(status, hasRest ? { ...headers, Connection: 'close' } : headers)
  if (isStream(body)) {
    sendStream(req, res, body).catch(() => abort(req, res))
    return
  }
  if (hasRest) {
    res.write(body)
    // ending the response closes the connection; the client finds the end of the body by Content-Length
    discardBody(req, () => res.end())
  } else {
    res.end(body)
  }
  // Node's server resets this once the response is sent, and closes the connection when it expires
  if (req.socket.writableLength > 0) req.socket.setTimeout(stalledMs)
}

async function sendStream(req: IncomingMessage, res: ServerResponse, stream: BodyStream): Promise<void> {
  const discarded = hasUnreadBody(req) ? new Promise<void>((resolve) => discardBody(req, resolve)) : undefined
  for await (const chunk of stream) {
    await write(chunk, res, req.socket)
    if (req.socket.destroyed) return
  }
  await discarded
  res.end()
}

/** Resolves when the client has read enough for the next chunk, or its connection is closed. */
function write(chunk: Uint8Array, res: ServerResponse, socket: Socket): Promise<unknown> | undefined {
  if (socket.destroyed) return undefined
  // yield to other requests even if the client reads as fast as the server sends
  if (res.write(chunk)) return nextTurn()
  return new Promise<void>((resolve) => {
    const { timeout = 0 } = socket
    // Node's server closes the connection when it expires
    socket.setTimeout(stalledMs)
    function resume(): void {
      socket.setTimeout(timeout)
      // listen on the socket: a queued response emits no 'close' when its connection closes
      socket.off('close', resume)
      res.off('drain', resume)
      resolve()
    }
    socket.once('close', resume)
    res.once('drain', resume)
  }).then(nextTurn)
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

/** Closes the connection so that the client does not mistake a truncated body for a complete one. */
function abort(req: IncomingMessage, res: ServerResponse): void {
  // in HTTP/1.0 the end of the connection is the end of the body: only a TCP reset is an error
  if (req.httpVersion === '1.0' && req.socket.remoteFamily && !('encrypted' in req.socket)) req.socket.resetAndDestroy()
  else res.destroy()
}

/** Whether parts of the body have not been received. */
export function hasUnreadBody(req: IncomingMessage): boolean {
  if (req.complete) return false
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  return coding !== undefined || (length !== undefined && Number(length) > 0)
}

/** Calls `done` when the body has ended or the limits are reached. */
export function discardBody(req: IncomingMessage, done: () => void): void {
  let left = discardBytesMax
  let chunks = 0
  const timer = setTimeout(finish, discardMs)
  function finish(): void {
    clearTimeout(timer)
    req.off('data', countChunk)
    done()
  }
  function countChunk(chunk: Uint8Array): void {
    countBytes(chunk)
    if (++chunks === discardChunksMax) skipBody(req.socket, countBytes)
  }
  function countBytes(bytes: Uint8Array): void {
    left -= bytes.length
    if (left < 0) finish()
  }
  req.on('data', countChunk)
  req.once('end', finish)
  req.once('close', finish)
  req.resume()
}
