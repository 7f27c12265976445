import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { newRequestId, problemAnswer } from './http/response.ts'
import { discardMs } from './http/send-response.ts'
import { handleExchange, headersMax, refuseExchange, tooManyHeaders } from './node-handler.ts'
import { createRouter, type HandlerOptions } from './router.ts'

export interface ServeOptions extends Omit<HandlerOptions, 'draining'> {
  ingest: EmbeddedIngest
  /** `127.0.0.1` without: reachable from this machine only. */
  host?: string
  /** 8787 without; 0 for any free one. */
  port?: number
  /** How long a whole request may take to arrive; 30,000 without. */
  requestTimeoutMs?: number
  /** How long `close` waits for requests that do not end; 10,000 without. */
  closeTimeoutMs?: number
}

/** A server that listens. */
export interface Served {
  /** `http://127.0.0.1:8787` */
  url: string
  port: number
  /**
   * Stops, without losing what has begun: answers new requests with 503 from now on, goes on listening until those in
   * flight are done and for {@link lingerMs} at least, then closes every connection. Resolves when all are closed.
   * Does not close the Ingest. Every call gives the same promise.
   */
  close(): Promise<void>
}

/** How long a request may take to send its headers. */
export const headersTimeoutMs = 10_000
/** How long a request may take to arrive as a whole. */
export const requestTimeoutMsDefault = 30_000
/** How long an idle connection is kept: longer than load balancers do, or they would use one that is just closing. */
export const keepAliveTimeoutMs = 75_000
/** How often the two timeouts of requests are looked at. */
export const connectionsCheckingIntervalMs = 1000
/** How long late requests get a 503, which they would retry elsewhere, before they find nobody listening. */
export const lingerMs = 500
/** How long `close` waits for what does not end. */
export const closeTimeoutMsDefault = 10_000

/**
 * Serves `ingest` over HTTP/1.1. Resolves once it listens; rejects with Node's error if it cannot. Installs no signal
 * handlers.
 *
 * @throws {IngestError} `invalid-argument` for rate limits that cannot be.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const { ingest, host = '127.0.0.1', port = 8787, closeTimeoutMs = closeTimeoutMsDefault, log } = options
  const draining = new AbortController()
  const router = createRouter(ingest, { ...options, draining: draining.signal })
  const server = createNodeServer(options.requestTimeoutMs ?? requestTimeoutMsDefault)
  const traffic = watchTraffic(server)
  answerBrokenRequests(server, traffic)

  function receive(req: IncomingMessage, res: ServerResponse, awaitsContinue: boolean): void {
    traffic.add(req, res)
    handleExchange(router, req, res, awaitsContinue)
  }
  server.on('request', (req, res) => receive(req, res, false))
  server.on('checkContinue', (req, res) => receive(req, res, true))
  server.on('checkExpectation', (req, res) => receive(req, res, false))

  await listen(server, port, host)
  const address = server.address() as AddressInfo
  const url = `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`
  let closed: Promise<void> | undefined
  return {
    url,
    port: address.port,
    close() {
      if (closed) return closed
      draining.abort()
      log?.info({ url }, 'draining')
      closed = drain(server, traffic, closeTimeoutMs)
      return closed
    },
  }
}

function createNodeServer(requestTimeoutMs: number): Server {
  const server = createServer({
    headersTimeout: Math.min(headersTimeoutMs, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: connectionsCheckingIntervalMs,
    // Node would answer without a body
    requireHostHeader: false,
  })
  // a client may close its half of the connection when it has sent its request, and still wants the answer
  return Object.assign(server, { httpAllowHalfOpen: true })
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

interface Exchange {
  req: IncomingMessage
  res: ServerResponse
}

/** Which connections have requests that are not done yet. */
interface Traffic {
  add(req: IncomingMessage, res: ServerResponse): void
  /** The last request of a connection, while any of its requests is not done. */
  lastOf(socket: Duplex): Exchange | undefined
  /** Calls `action` as soon as no request is in flight. */
  whenIdle(action: () => void): void
}

function watchTraffic(server: Server): Traffic {
  const busy = new Map<Duplex, Exchange & { pending: number }>()
  let onIdle: (() => void) | undefined
  function leave(socket: Duplex): void {
    if (busy.delete(socket) && busy.size === 0) onIdle?.()
  }
  // responses that wait behind another one of their connection are not told when it closes
  server.on('connection', (socket: Duplex) => socket.once('close', () => leave(socket)))
  return {
    add(req, res) {
      const { socket } = req
      const connection = { req, res, pending: (busy.get(socket)?.pending ?? 0) + 1 }
      busy.set(socket, connection)
      res.once('close', () => {
        const current = busy.get(socket)
        if (current && --current.pending === 0) leave(socket)
      })
    },
    lastOf: (socket) => busy.get(socket),
    whenIdle(action) {
      if (busy.size === 0) action()
      else onIdle = action
    },
  }
}

/** Answers what Node could not read as a request, after the answers to what came before it on the connection. */
function answerBrokenRequests(server: Server, traffic: Traffic): void {
  const refused = new WeakSet<Duplex>()
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (refused.has(socket)) return
    refused.add(socket)
    const refusal = refusalOf(error)
    const last = traffic.lastOf(socket)
    if (!refusal) socket.destroy()
    else if (!last) refuseConnection(socket, refusal)
    else if (last.req.complete) last.res.once('close', () => refuseConnection(socket, refusal))
    else {
      refuseExchange(last.req, last.res, refusal)
      // once it is answered, Node tells nobody who still reads its body that no more will come
      socket.once('close', () => last.req.destroy())
    }
  })
  server.on('connect', (_req, socket) => {
    // Node has let go of this connection
    socket.on('error', () => socket.destroy()).resume()
    refuseConnection(socket, new IngestError('malformed-request', 'This is not a proxy.'))
  })
}

/** Undefined when the sender has left: a 400 for what a broken connection cut short would make it drop a good batch. */
function refusalOf({ code }: NodeJS.ErrnoException): IngestError | undefined {
  switch (code) {
    case 'ECONNRESET':
    case 'EPIPE':
    case 'HPE_INVALID_EOF_STATE':
      return undefined
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new IngestError('request-timeout', 'The request took too long to arrive.')
    case 'HPE_HEADER_OVERFLOW':
      return new IngestError('headers-too-large', tooManyHeaders(headersMax))
    default:
      return new IngestError('malformed-request', 'This is not a request in HTTP/1.1.')
  }
}

function refuseConnection(socket: Duplex, error: IngestError): void {
  if (!socket.writable) return
  const { status, headers, body } = problemAnswer(error, newRequestId())
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  // whatever else comes is read and thrown away for a while, so that the answer is not lost
  const timer = setTimeout(() => socket.destroy(), discardMs)
  socket.once('close', () => clearTimeout(timer))
}

function drain(server: Server, traffic: Traffic, closeTimeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const stopListening = () => {
      if (server.listening) server.close()
    }
    const linger = setTimeout(() => traffic.whenIdle(stopListening), lingerMs)
    const deadline = setTimeout(() => {
      stopListening()
      server.closeAllConnections()
    }, closeTimeoutMs)
    server.once('close', () => {
      clearTimeout(linger)
      clearTimeout(deadline)
      resolve()
    })
  })
}
