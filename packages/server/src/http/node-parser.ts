import type { Socket } from 'node:net'

/**
 * The internals of Node's HTTP parser that this file uses. The parser delivers the content of one read, 64 KiB, in one
 * turn of the event loop: thousands of small requests, or of small chunks of a body. No public API stops it. These
 * internals are the same from Node 20 to 26; without them these functions have no effect.
 */
interface Parser {
  /** The callbacks, by number. */
  [index: number]: unknown
  /** Called with each request when its headers are complete. */
  onIncoming?: ((request: { upgrade?: boolean | null }, ...rest: unknown[]) => number) | null
}

/** The return value of `onIncoming` for a protocol upgrade: the parser ignores the rest of the bytes. */
const stopParsing = 2

/** Calls `mayContinue` before each further request of a connection; false stops the parser. */
export function guardRequests(socket: Socket, mayContinue: () => boolean): void {
  const parser = parserOf(socket)
  const onIncoming = parser?.onIncoming
  if (parser && onIncoming) {
    parser.onIncoming = (...request) => (mayContinue() ? onIncoming.apply(parser, request) : stopParsing)
  }
}

/** Discards the rest of the current read of a body; later bytes go to `onData`, unparsed. */
export function skipBody(socket: Socket, onData: (bytes: Uint8Array) => void): void {
  const parser = parserOf(socket)
  const index = parser ? indexOfBodyCallback(parser) : undefined
  if (!parser || index === undefined) return
  const onBody = parser[index]
  parser[index] = undefined
  parser.onIncoming = (request) => {
    request.upgrade = false
    return stopParsing
  }
  setImmediate(() => {
    // Node reuses parsers for other connections
    parser[index] = onBody
    detachParser(socket, onData)
  })
}

/** Passes further bytes to `onData`, unparsed. Must not be called from a callback of the parser. */
export function detachParser(socket: Socket, onData: (bytes: Uint8Array) => void): void {
  // Node's HTTP server detaches its parser from a socket that gets a 'data' listener
  socket.removeAllListeners('data').on('data', onData)
}

function parserOf(socket: Socket & { parser?: Parser | null }): Parser | undefined {
  return socket.parser ?? undefined
}

function indexOfBodyCallback(parser: Parser): number | undefined {
  for (let i = 0; i < 8; i++) {
    const callback = parser[i]
    if (typeof callback === 'function' && callback.name === 'parserOnBody') return i
  }
  return undefined
}
