import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { detachParser, guardRequests } from './node-parser.ts'

/** How many requests of one connection may wait while the one before them is handled. */
export const pipelinedRequestsMax = 16
/** How much more is read of a connection that sent too many, and discarded. */
const discardBytesMax = 64 * 1024

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
 * that pipelines (RFC 9112 section 9.3.2) gets no more of the server than one that waits for each response. With more
 * than {@link pipelinedRequestsMax} waiting, the connection takes no further request, and is closed after the responses
 * to those.
 */
export function handleInTurn(req: IncomingMessage, res: ServerResponse, handle: () => void): void {
  const { socket } = req
  // HTTP/2 has limits of its own; a response that has ended emits no further 'close', which the next request waits for
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

function watch(socket: Socket, pipeline: Pipeline): Exchange[] {
  // queued responses emit no 'close' when their connection closes
  socket.once('close', () => {
    pipeline.waiting = []
  })
  // without access to the parser, requests beyond the limit are parsed and ignored
  guardRequests(socket, () => takesMore(socket, pipeline))
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
  setImmediate(discardRest, socket)
  return false
}

/** Reads some more: closing a connection with unread bytes resets it, and responses may be lost. */
function discardRest(socket: Socket): void {
  let left = discardBytesMax
  detachParser(socket, (bytes) => {
    left -= bytes.length
    // each time, because Node's HTTP server resumes it after each response
    if (left < 0) socket.pause()
  })
}
