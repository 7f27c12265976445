import type { Socket } from 'node:net'

/**
 * What is used of the parser of Node's HTTP server. It hands over all that one read of 64 KiB brought in one turn of the
 * event loop: thousands of small requests, or of small chunks of a body. Nothing public stops it, so this goes by its
 * internals, the same from Node 20 to 26; where they are missing, nothing is done.
 */
interface Parser {
  /** Its callbacks, by number. */
  [index: number]: unknown
  /** Called with each request when its headers are complete. */
  onIncoming?: ((request: { upgrade?: boolean | null }, ...rest: unknown[]) => number) | null
}

/** What `onIncoming` returns for an upgrade to another protocol: the parser goes no further in the bytes that it has. */
const stopParsing = 2

/** Asks `mayTake` before each further request of a connection; the first no stops the parser. */
export function guardRequests(socket: Socket, mayTake: () => boolean): void {
  const parser = parserOf(socket)
  const onIncoming = parser?.onIncoming
  if (parser && onIncoming) {
    parser.onIncoming = (...request) => (mayTake() ? onIncoming.apply(parser, request) : stopParsing)
  }
}

/** Gives no more of the body that is being received to anybody, and then what else comes to `onData`, unparsed. */
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
    // Node uses parsers again, for other connections
    parser[index] = onBody
    detachParser(socket, onData)
  })
}

/** Gives what comes to `onData`, unparsed. Not to be called by a callback of the parser. */
export function detachParser(socket: Socket, onData: (bytes: Uint8Array) => void): void {
  // Node's HTTP server lets go of a connection to which somebody else listens
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
