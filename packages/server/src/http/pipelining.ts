import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { detachParser, guardRequests } from './node-parser.ts'

/** Maximum number of requests of a connection that are queued after the one in flight. */
export const pipelinedRequestsMax = 16
/** How many bytes of a connection with too many pipelined requests are discarded. */
const discardBytesMax = 64 * 1024

interface Exchange {
  req: IncomingMessage
  res: ServerResponse
  handle: () => void
}

/** The requests of one connection. */
interface Pipeline {
  isBusy: boolean
  /** Further requests are ignored. */
  isStopped: boolean
  /** Reading has ended permanently. */
  isPaused: boolean
  /** Undefined until the first pipelined request. */
  queue: Exchange[] | undefined
  /** Starts the next request. */
  onResponseClose(): void
}

const pipelines = new WeakMap<Socket, Pipeline>()

/**
 * Handles the requests of an HTTP/1 connection one after another, at most one per turn of the event loop, so that
 * pipelining (RFC 9112 section 9.3.2) takes no capacity from other connections. If more than {@link
 * pipelinedRequestsMax} are queued, further requests are ignored and the connection is closed after the last response.
 */
export function handleInTurn(req: IncomingMessage, res: ServerResponse, handle: () => void): void {
  const { socket } = req
  // HTTP/2 has its own limits; an ended response emits no further 'close' to start the next request
  if (!isHttp1(req) || res.destroyed || res.writableFinished) {
    handle()
    return
  }
  let pipeline = pipelines.get(socket)
  if (!pipeline) {
    pipeline = createPipeline(socket)
    pipelines.set(socket, pipeline)
  }
  if (!pipeline.isBusy) {
    begin(socket, pipeline, res, handle)
    return
  }
  pipeline.queue ??= createQueue(socket, pipeline)
  if (mayQueue(socket, pipeline)) pipeline.queue.push({ req, res, handle })
}

/** Whether a request comes from node:http rather than node:http2, whatever version it names. */
export function isHttp1(req: IncomingMessage): boolean {
  return !('stream' in req)
}

/**
 * Whether a connection is paused, so that its close is not reported: a queued request has a large body, or too many are
 * queued.
 */
export function isUnread(socket: Socket): boolean {
  const { isPaused = false, queue = [] } = pipelines.get(socket) ?? {}
  return isPaused || queue.some(({ req }) => !req.complete && req.readableLength >= req.readableHighWaterMark)
}

function createPipeline(socket: Socket): Pipeline {
  const pipeline: Pipeline = {
    isBusy: false,
    isStopped: false,
    isPaused: false,
    queue: undefined,
    onResponseClose() {
      const next = pipeline.queue?.shift()
      if (next) setImmediate(begin, socket, pipeline, next.res, next.handle)
      else pipeline.isBusy = false
    },
  }
  return pipeline
}

function begin(socket: Socket, pipeline: Pipeline, res: ServerResponse, handle: () => void): void {
  if (socket.destroyed) return
  pipeline.isBusy = true
  res.on('close', pipeline.onResponseClose)
  handle()
}

function createQueue(socket: Socket, pipeline: Pipeline): Exchange[] {
  // queued responses emit no 'close' when their connection closes
  socket.once('close', () => {
    pipeline.queue = []
  })
  // without access to the parser, requests beyond the limit are parsed and ignored
  guardRequests(socket, () => mayQueue(socket, pipeline))
  return []
}

function mayQueue(socket: Socket, pipeline: Pipeline): boolean {
  const { queue = [] } = pipeline
  if (pipeline.isStopped) return false
  if (queue.length < pipelinedRequestsMax) return true
  pipeline.isStopped = true
  const last = queue.at(-1)
  // closes the connection after this response
  if (last) last.res.shouldKeepAlive = false
  setImmediate(discardRest, socket, pipeline)
  return false
}

/** Closing a connection with unread bytes resets it, and responses may be lost. */
function discardRest(socket: Socket, pipeline: Pipeline): void {
  let left = discardBytesMax
  detachParser(socket, (bytes) => {
    left -= bytes.length
    // on every chunk: Node's HTTP server resumes the socket after each response
    if (left < 0) socket.pause()
    pipeline.isPaused = left < 0
  })
}
