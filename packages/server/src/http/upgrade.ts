import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** The byte offset in its connection at which the last request with an `Upgrade` ended. */
const ends = new WeakMap<Socket, number>()

/**
 * Whether Node's parser may have dropped bytes after a request with an `Upgrade`: if no handler is set, the parser
 * drops the rest of the same read. Otherwise the connection can be kept, as Java clients send `Upgrade: h2c` with every
 * request. Call it once for each such request, after its body was received.
 */
export function mayHaveDropped(req: IncomingMessage): boolean {
  const { socket, headers } = req
  const length = Number(headers['content-length'] ?? 0)
  const end = (ends.get(socket) ?? 0) + headBytes(req) + length
  ends.set(socket, end)
  return headers['transfer-encoding'] !== undefined || socket.bytesRead > end
}

/** A lower bound: a client may send more spaces. */
function headBytes({ method = '', url = '', rawHeaders }: IncomingMessage): number {
  const separatorBytes = rawHeaders.length * 2
  return (
    rawHeaders.reduce((sum, text) => sum + text.length, `${method} ${url} HTTP/1.1\r\n\r\n`.length) + separatorBytes
  )
}
