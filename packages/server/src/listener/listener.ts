import { createServer, type IncomingMessage, type ServerOptions, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { IngestError } from '@ingest/core'
import type { Log } from '../log.ts'
import { handleRequest } from '../node-handler.ts'
import type { Router } from '../router.ts'
import { type Address, listen } from './address.ts'
import { refuseMalformedRequests } from './malformed-requests.ts'
import { handshakeTimeoutMs, secureContext, type TlsMaterial } from './tls.ts'
import { drain, watchTraffic } from './traffic.ts'

/** Options of a listening server. */
export interface ListenOptions extends Address {
  /** Serves HTTPS, with TLS 1.2 or later. Default: HTTP. */
  tls?: TlsMaterial
  /** How long receiving a whole request may take, in milliseconds. Default: 30,000. */
  requestTimeoutMs?: number
  /** How long `close` waits for requests in flight, in milliseconds. Default: 10,000. */
  closeTimeoutMs?: number
}

/** A server that is listening. */
export interface Served {
  /** `http://127.0.0.1:8787`, or `unix:/run/ingest.sock`. */
  url: string
  /** 0 for a Unix socket. */
  port: number
  /**
   * Uses another certificate for new connections. If this throws, the current one stays in use.
   *
   * @throws {IngestError} `invalid-argument` for unusable material, and for a server without TLS
   */
  reloadTls(material: TlsMaterial): void
  /**
   * Drains the server: new requests get a 503, and the server listens until the requests in flight are done, for at
   * least 500 ms and at most `closeTimeoutMs`. Then it closes every connection, and resolves when all are closed. Does
   * not close the Ingest. Every call returns the same promise.
   */
  close(): Promise<void>
}

/** How long a request may take to send its headers. */
const headersTimeoutMs = 10_000
const requestTimeoutMsDefault = 30_000
/**
 * How long an idle connection is kept: longer than in load balancers, which would otherwise reuse a closing connection.
 */
const keepAliveTimeoutMs = 75_000
/** How often the timeouts of requests are checked. */
const connectionsCheckingIntervalMs = 1000
const closeTimeoutMsDefault = 10_000

export interface ListenerRole {
  portDefault: number
  /** How long the server keeps listening after `close`. */
  lingerMs: number
  log: Log | undefined
  /** Called when the server starts to drain. */
  onDrain?(): void
}

/** Serves a router over HTTP/1.1. */
export async function openListener(
  router: Router,
  options: ListenOptions,
  { portDefault, lingerMs, log, onDrain }: ListenerRole,
): Promise<Served> {
  const { tls, requestTimeoutMs = requestTimeoutMsDefault, closeTimeoutMs = closeTimeoutMsDefault } = options
  const limits = connectionLimits(requestTimeoutMs)
  const secure = tls && createTlsServer({ ...limits, ...tlsOptions, ...secureContext(tls, log) })
  const server = secure ?? createServer(limits)
  // a client may half-close its connection after its request and still read the response
  Object.assign(server, { httpAllowHalfOpen: true })
  const traffic = watchTraffic(server)
  refuseMalformedRequests(server, traffic, router)

  function handle(req: IncomingMessage, res: ServerResponse, awaitsContinue: boolean): void {
    traffic.add(req, res)
    handleRequest(router, req, res, awaitsContinue)
  }
  server.on('request', (req, res) => handle(req, res, false))
  server.on('checkContinue', (req, res) => handle(req, res, true))
  server.on('checkExpectation', (req, res) => handle(req, res, false))

  const { url, port } = await listen(server, options, portDefault)
  let closed: Promise<void> | undefined
  return {
    url,
    port,
    reloadTls(material) {
      if (!secure) throw new IngestError('invalid-argument', 'This server was started without TLS.')
      secure.setSecureContext(secureContext(material, log))
      log?.info({ url }, 'TLS certificate reloaded')
    },
    close() {
      if (closed) return closed
      onDrain?.()
      log?.info({ url }, 'draining')
      closed = drain(server, traffic, { lingerMs, closeTimeoutMs })
      return closed
    },
  }
}

const tlsOptions = { handshakeTimeout: handshakeTimeoutMs, allowHalfOpen: true }

function connectionLimits(requestTimeoutMs: number): ServerOptions {
  return {
    headersTimeout: Math.min(headersTimeoutMs, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: connectionsCheckingIntervalMs,
    // Node's own 400 has no body
    requireHostHeader: false,
  }
}
