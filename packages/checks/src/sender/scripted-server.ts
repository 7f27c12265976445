import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { createIngest, errorTable, IngestError, openMemoryStore } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'
import type { Fault } from './faults.ts'

export const projectId = 'conformance'
export const key = 'ik_conformance'

/** A request, to which a rule responds. */
export interface Exchange {
  /** When it arrived, in milliseconds. */
  readonly arrivedAt: number
  /** When the response began, in milliseconds; undefined before. */
  respondedAt: number | undefined
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** The body after decompression. */
  readonly body: Buffer
  /** The events of the body; none if it is not a batch. */
  readonly events: readonly JsonObject[]
  readonly res: ServerResponse
  /** When an earlier request was lost on a closed connection, in milliseconds; undefined if none was. */
  lostAt: number | undefined
  respond(status: number, headers?: Readonly<Record<string, string>>, body?: string): void
  /** Stores the batch and responds as Ingest does. */
  accept(): Promise<void>
  /** Writes to the connection, even after the response. */
  write(text: string): void
  /** Ends the connection after the response, without announcing it. */
  endConnection(): void
  inject(fault: Fault): Promise<void>
}

/** An Ingest in memory whose responses are chosen by a rule. */
export interface ScriptedServer {
  readonly url: string
  /** The stored events, in order. */
  stored(): Promise<JsonObject[]>
  /** Closes all connections. */
  disconnect(): void
  /** Closes all connections, and refuses new ones for that many milliseconds. */
  refuse(ms: number): Promise<void>
  close(): Promise<void>
}

/** Maximum bytes of a decompressed body: more than a batch may have. */
const bodyBytesMax = 64 * 1024 * 1024

/** Opens a server on a free port of 127.0.0.1 that passes on each request when its body is complete. */
export async function openScriptedServer(onRequest: (exchange: Exchange) => void): Promise<ScriptedServer> {
  const ingest = createIngest({ store: openMemoryStore() })
  const project = ingest.project(projectId)

  let lostAt: number | undefined

  const server = createServer(async (req, res) => {
    if (res.socket?.writableEnded) {
      lostAt = performance.now()
      return res.socket.resetAndDestroy()
    }
    try {
      const body = decompress(req, await buffer(req))
      const exchange = toExchange(req, res, body, () => project.submitBatch(body))
      exchange.lostAt = lostAt
      lostAt = undefined
      onRequest(exchange)
    } catch {
      // the sender has closed the connection, or the body is not gzip as declared
      res.writeHead(400).end()
    }
  })
  // the server must not end a response that a rule delays
  server.requestTimeout = 0
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,

    async stored() {
      const events: JsonObject[] = []
      for await (const { bytes } of project.readEvents()) events.push(JSON.parse(Buffer.from(bytes).toString()))
      return events
    },

    disconnect: () => server.closeAllConnections(),

    async refuse(ms) {
      await stopListening(server)
      await sleep(ms)
      await once(server.listen(port, '127.0.0.1'), 'listening')
    },

    async close() {
      await stopListening(server)
      await ingest.close()
    },
  }
}

async function stopListening(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeAllConnections()
  await closed
}

function decompress({ headers }: IncomingMessage, body: Buffer): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(body, { maxOutputLength: bodyBytesMax }) : body
}

function toExchange(
  { method = '', url = '', headers }: IncomingMessage,
  res: ServerResponse,
  body: Buffer,
  submit: () => Promise<object>,
): Exchange {
  // a complete response has no socket
  const { socket } = res
  const exchange: Exchange = {
    arrivedAt: performance.now(),
    respondedAt: undefined,
    lostAt: undefined,
    method,
    path: url,
    headers,
    body,
    events: parseEvents(body),
    res,

    respond(status, headers = {}, body = '') {
      exchange.respondedAt = performance.now()
      res.writeHead(status, headers).end(body)
    },

    async accept() {
      try {
        const result = await submit()
        exchange.respond(202, { 'Content-Type': 'application/json' }, JSON.stringify(result))
      } catch (error) {
        refuse(error)
      }
    },

    write: (text) => void socket?.write(text),
    endConnection: () => void socket?.end(),

    async inject(fault) {
      exchange.respondedAt = performance.now()
      await fault(res, { read: async () => {}, store: submit }).catch(refuse)
    },
  }

  /** Responds as Ingest does to a batch that it does not store. */
  function refuse(error: unknown): void {
    if (!(error instanceof IngestError)) throw error
    const { status } = errorTable[error.code]
    const problem = JSON.stringify({ status, code: error.code, detail: error.message })
    exchange.respond(status, { 'Content-Type': 'application/problem+json' }, problem)
  }
  // errors of writes to a connection that the sender has closed
  res.on('error', () => {})
  return exchange
}

function parseEvents(body: Buffer): JsonObject[] {
  try {
    const { events } = JSON.parse(body.toString())
    return events.filter((event: unknown) => typeof event === 'object' && event !== null)
  } catch {
    return []
  }
}
