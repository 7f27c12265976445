import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { newRequestId, problemResponse } from './http/response.ts'
import { discardMs } from './http/send-response.ts'
import type { ListenOptions, Served } from './listener/listen-options.ts'
import { handleRequest, headersMax, sendProblem, tooManyHeaders } from './node-handler.ts'
import { createRouter, type HandlerOptions } from './router.ts'

export interface ServeOptions extends Omit<HandlerOptions, 'draining'>, ListenOptions {
  ingest: EmbeddedIngest
}

/** How long a request may take to send its headers. */
export const headersTimeoutMs = 10_000
export const requestTimeoutMsDefault = 30_000
/** How long an idle connection is kept: longer than load balancers do, or they would use one that is being closed. */
export const keepAliveTimeoutMs = 75_000
/** How often the timeouts of requests are checked. */
export const connectionsCheckingIntervalMs = 1000
/** How long late requests get a 503, which clients retry elsewhere, before connections are refused. */
export const lingerMs = 500
export const closeTimeoutMsDefault = 10_000

/**
 * Serves `ingest` over HTTP/1.1. Resolves once it listens; rejects with Node's error if it cannot. Installs no signal
 * handlers.
 *
 * @throws {IngestError} `invalid-argument` for invalid options.
 */
export async function serve(options: ServeOptions): Promise<Served> {
  const { ingest, host = '127.0.0.1', port = 8787, closeTimeoutMs = closeTimeoutMsDefault, log } = options
  const draining = new AbortController()
  const router = createRouter(ingest, { ...options, draining: draining.signal })
  const server = createNodeServer(options.requestTimeoutMs ?? requestTimeoutMsDefault)
  const traffic = watchTraffic(server)
  refuseMalformedRequests(server, traffic)

  function handle(req: IncomingMessage, res: ServerResponse, awaitsContinue: boolean): void {
    traffic.add(req, res)
    handleRequest(router, req, res, awaitsContinue)
  }
  server.on('request', (req, res) => handle(req, res, false))
  server.on('checkContinue', (req, res) => handle(req, res, true))
  server.on('checkExpectation', (req, res) => handle(req, res, false))

  await listen(server, port, host)
  const address = server.address() as AddressInfo
  const url = `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`
  let closed: Promise<void> | undefined
  return {
    url,
    port: address.port,
    reloadTls() {},
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
    // Node's own 400 has no body
    requireHostHeader: false,
  })
  // a client may close its half of the connection after its request and still read the response
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

/** The connections with requests in flight. */
interface Traffic {
  add(req: IncomingMessage, res: ServerResponse): void
  /** The last request of a connection with requests in flight. */
  lastOf(socket: Duplex): Exchange | undefined
  /** Calls `action` as soon as no request is in flight. */
  whenIdle(action: () => void): void
}

function watchTraffic(server: Server): Traffic {
  const busy = new Map<Duplex, Exchange & { pending: number }>()
  let onIdle: (() => void) | undefined
  function remove(socket: Duplex): void {
    if (busy.delete(socket) && busy.size === 0) onIdle?.()
  }
  // queued responses emit no 'close' when their connection closes
  server.on('connection', (socket: Duplex) => socket.once('close', () => remove(socket)))
  return {
    add(req, res) {
      const { socket } = req
      const connection = { req, res, pending: (busy.get(socket)?.pending ?? 0) + 1 }
      busy.set(socket, connection)
      res.once('close', () => {
        const current = busy.get(socket)
        if (current && --current.pending === 0) remove(socket)
      })
    },
    lastOf: (socket) => busy.get(socket),
    whenIdle(action) {
      if (busy.size === 0) action()
      else onIdle = action
    },
  }
}

/** Responds to what Node cannot parse, after the responses to earlier requests of the connection. */
function refuseMalformedRequests(server: Server, traffic: Traffic): void {
  const refused = new WeakSet<Duplex>()
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (refused.has(socket)) return
    refused.add(socket)
    const refusal = toRefusal(error)
    const last = traffic.lastOf(socket)
    if (!refusal) socket.destroy()
    else if (!last) refuseConnection(socket, refusal)
    else if (last.req.complete) last.res.once('close', () => refuseConnection(socket, refusal))
    else {
      sendProblem(last.req, last.res, refusal)
      // after the response, Node does not end a body that is still being read
      socket.once('close', () => last.req.destroy())
    }
  })
  server.on('connect', (_req, socket) => {
    // Node has detached this connection
    socket.on('error', () => socket.destroy()).resume()
    refuseConnection(socket, new IngestError('malformed-request', 'This server is not a proxy.'))
  })
}

/** Undefined for a lost connection: a 400 for a truncated request would make its client drop a valid batch. */
function toRefusal({ code }: NodeJS.ErrnoException): IngestError | undefined {
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
      return new IngestError('malformed-request', 'This is not a valid HTTP/1.1 request.')
  }
}

function refuseConnection(socket: Duplex, error: IngestError): void {
  if (!socket.writable) return
  const { status, headers, body } = problemResponse(error, newRequestId())
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  // further bytes are discarded: closing the connection now would reset it, and lose the response
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
