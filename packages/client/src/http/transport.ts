import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { buildConnector, Client, Dispatcher, Pool } from 'undici'

type Connector = buildConnector.connector

export interface TransportRequest {
  method: 'DELETE' | 'GET' | 'POST' | 'PUT'
  /** Includes the query. */
  path: string
  headers: Readonly<Record<string, string>>
  body: Uint8Array | null
}

export interface TransportResponse {
  status: number
  /** By lower-case name. */
  headers: Readonly<Record<string, string | string[] | undefined>>
  body: Readable
}

export interface TransportOptions {
  signal: AbortSignal
  /** Called when the request has a connection. */
  onStart(): void
}

/** Sends requests to one server. Rejects with network errors, and with the reason of the signal. */
export interface Transport {
  send(request: TransportRequest, options: TransportOptions): Promise<TransportResponse>
  /** Aborts requests in flight. */
  close(): Promise<void>
}

/** Maximum number of open connections; further requests are queued. */
export const connectionsMax = 64

/** Loads undici here, because `require()` and CommonJS bundles reject modules with a top-level await. */
export function openTransport(origin: string): Transport {
  const transport = loadTransport(origin)
  // `send` reports the error
  transport.catch(() => {})
  return {
    send: async (request, options) => (await transport).send(request, options),
    close: async () => (await transport).close(),
  }
}

/** A pool of undici, or `fetch` where undici does not run: Bun replaces undici by its own partial version. */
async function loadTransport(origin: string): Promise<Transport> {
  // fails in an ES module that bundles undici, which requires Node's modules
  const undici = await import('undici').catch(() => undefined)
  if (undici?.Pool === undefined || !('dispatch' in undici.Pool.prototype)) return fetchTransport(origin)
  // `startWatchdog` enforces timeouts
  const { Client, buildConnector } = undici
  const connectSocket = buildConnector({})
  const factory = (target: URL) =>
    closeAfterErrors(connectSocket, (connect) => new Client(target, { headersTimeout: 0, bodyTimeout: 0, connect }))
  return poolTransport(new undici.Pool(origin, { connections: connectionsMax, factory }))
}

/**
 * A client that closes its connection after an error response to a body. A proxy may have sent it before it read the
 * body, and may read the body as the next request: its response would be taken for that to our next request.
 */
function closeAfterErrors(connect: Connector, createClient: (connect: Connector) => Client): Dispatcher {
  let socket: Socket | null = null
  const client = createClient((options, done) =>
    connect(options, (...result) => {
      socket = result[1]
      done(...result)
    }),
  )
  const { dispatch } = client.compose((dispatch) => (options, handler) => {
    let isError = false
    return dispatch(options, {
      ...forward(handler),
      onResponseStart(controller, status, ...rest) {
        isError = status >= 300
        handler.onResponseStart?.(controller, status, ...rest)
      },
      onResponseEnd(...args) {
        if (isError && options.body) socket?.destroy()
        handler.onResponseEnd?.(...args)
      },
    })
  })
  return Object.assign(client, { dispatch })
}

function poolTransport(pool: Pool): Transport {
  return {
    async send(request, { signal, onStart }) {
      const observed = pool.compose(
        (dispatch) => (options, handler) => dispatch(options, announceStart(handler, onStart)),
      )
      // undici rejects an aborted request only once it has a connection
      const response = observed.request({ ...request, signal })
      const { statusCode: status, headers, body } = await Promise.race([response, rejectOnAbort(signal)])
      return { status, headers, body }
    },
    close: () => pool.destroy(),
  }
}

function announceStart(handler: Dispatcher.DispatchHandler, onStart: () => void): Dispatcher.DispatchHandler {
  return {
    ...forward(handler),
    onRequestStart(controller, context) {
      onStart()
      handler.onRequestStart?.(controller, context)
    },
  }
}

/** Not undici's `DecoratorHandler`, which fails if a response starts twice: an interim and then the final one. */
function forward(handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
  return {
    onRequestStart: (...args) => handler.onRequestStart?.(...args),
    onRequestUpgrade: (...args) => handler.onRequestUpgrade?.(...args),
    onResponseStart: (...args) => handler.onResponseStart?.(...args),
    onResponseData: (...args) => handler.onResponseData?.(...args),
    onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
    onResponseError: (...args) => handler.onResponseError?.(...args),
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

function fetchTransport(origin: string): Transport {
  const closing = new AbortController()
  return {
    async send({ path, ...request }, { signal, onStart }) {
      // fetch does not report when it has a connection
      onStart()
      const init = { ...request, signal: AbortSignal.any([signal, closing.signal]), redirect: 'manual' as const }
      try {
        const { status, headers, body } = await fetch(`${origin}${path}`, init as RequestInit)
        const stream = body === null ? Readable.from([]) : Readable.fromWeb(body as never)
        return { status, headers: Object.fromEntries(headers), body: stream }
      } catch (error) {
        if (closing.signal.aborted) throw Object.assign(new Error('closed'), { code: 'UND_ERR_CLOSED' })
        // fetch wraps network errors
        throw error instanceof TypeError && error.cause instanceof Error ? error.cause : error
      }
    },
    async close() {
      closing.abort()
    },
  }
}
