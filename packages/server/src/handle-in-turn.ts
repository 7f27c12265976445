import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** How many requests of one connection may wait while the one before them is handled. */
export const pipelinedRequestsMax = 16
/** How much more is read of a connection that sent too many, and thrown away. */
const discardBytesMax = 256 * 1024

interface Exchange {
  res: ServerResponse
  handle: () => void
}

/** The requests of one connection. */
interface Pipeline {
  isBusy: boolean
  /** No request is taken any more. */
  isStopped: boolean
  /** Undefined until the connection is pipelined for the first time. */
  waiting: Exchange[] | undefined
}

const pipelines = new WeakMap<Socket, Pipeline>()

/**
 * Handles the requests of an HTTP/1 connection one after the other, at most one in a turn of the event loop: a client
 * that sends many at once (RFC 9112 section 9.3.2) gets no more of the server than one that waits for each response.
 * With more than {@link pipelinedRequestsMax} waiting, the connection takes no further request, and is closed when
 * those before are answered.
 */
export function handleInTurn(req: IncomingMessage, res: ServerResponse, handle: () => void): void {
  const { socket } = req
  // HTTP/2 has bounds of its own; and a response that is over would never let the next one begin
  if (req.httpVersionMajor !== 1 || res.destroyed || res.writableFinished) {
    handle()
    return
  }
  let pipeline = pipelines.get(socket)
  if (!pipeline) {
    pipeline = { isBusy: false, isStopped: false, waiting: undefined }
    pipelines.set(socket, pipeline)
  }
  if (!pipeline.isBusy) {
    begin(socket, pipeline, { res, handle })
    return
  }
  pipeline.waiting ??= watch(socket, pipeline)
  if (takesMore(socket, pipeline)) pipeline.waiting.push({ res, handle })
}

function begin(socket: Socket, pipeline: Pipeline, { res, handle }: Exchange): void {
  if (socket.destroyed) return
  pipeline.isBusy = true
  res.once('close', () => {
    const next = pipeline.waiting?.shift()
    if (next) setImmediate(begin, socket, pipeline, next)
    else pipeline.isBusy = false
  })
  handle()
}

/** The parser of Node's HTTP server, as far as it is needed here. */
interface Parser {
  /** Called with each request when its headers are complete. */
  onIncoming?: ((...request: unknown[]) => number) | null
}

/** What llhttp goes on with no further in the bytes that it has: the connection is for another protocol now. */
const stopParsing = 2

function watch(socket: Socket & { parser?: Parser }, pipeline: Pipeline): Exchange[] {
  // responses that wait behind another one of their connection are not told when it closes
  socket.once('close', () => {
    pipeline.waiting = []
  })
  const { parser } = socket
  const onIncoming = parser?.onIncoming
  // Node emits all requests of one read, up to thousands, in one turn, and has no public way to stop it. Where the
  // parser is not as expected, the requests beyond the limit are only left unanswered.
  if (parser && onIncoming) {
    parser.onIncoming = (...request) => (takesMore(socket, pipeline) ? onIncoming.apply(parser, request) : stopParsing)
  }
  return []
}

function takesMore(socket: Socket, pipeline: Pipeline): boolean {
  const { waiting = [] } = pipeline
  if (waiting.length < pipelinedRequestsMax) return !pipeline.isStopped
  if (pipeline.isStopped) return false
  pipeline.isStopped = true
  const last = waiting.at(-1)
  // closes the connection behind it
  if (last) last.res.shouldKeepAlive = false
  // not while the parser is at work
  process.nextTick(discardRest, socket)
  return false
}

/** Reads some more without parsing it: to close a connection with bytes unread resets it, and responses may be lost. */
function discardRest(socket: Socket): void {
  let left = discardBytesMax
  // a listener of one's own detaches the parser
  socket.removeAllListeners('data').on('data', (chunk: Uint8Array) => {
    left -= chunk.length
    // again and again, as Node's HTTP server resumes it with each response
    if (left < 0) socket.pause()
  })
}
