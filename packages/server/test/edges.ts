import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import { toFetchHandler } from '../src/fetch-handler.ts'
import { createHandler } from '../src/node-handler.ts'
import type { HandlerOptions } from '../src/router.ts'
import { serve } from '../src/serve.ts'
import { certificateA } from './certificates.ts'
import { faultsOf } from './openapi/check-exchange.ts'
import { openRaw, type RawResponse, type Sent } from './raw-connection.ts'

export type { Sent }

export interface Edge {
  /** Sends a request; the test fails if the response is not as the OpenAPI document says. */
  send(sent: Sent): Promise<RawResponse>
  close(): Promise<unknown>
}

/** Every way to reach the router: each list of cases runs over all of them. */
export const edges: readonly {
  name: string
  open(ingest: EmbeddedIngest, options?: HandlerOptions): Promise<Edge>
}[] = [
  {
    name: 'serve',
    async open(ingest, options = {}) {
      const served = await serve({ ingest, port: 0, closeTimeoutMs: 1, ...options })
      return { send: (sent) => checked(sent, sendRaw(served.port, sent)), close: () => served.close() }
    },
  },
  {
    name: 'serve with TLS',
    async open(ingest, options = {}) {
      const served = await serve({ ingest, port: 0, closeTimeoutMs: 1, tls: certificateA, ...options })
      return { send: (sent) => checked(sent, sendRaw(served.port, sent, { tls: true })), close: () => served.close() }
    },
  },
  {
    name: 'handler',
    async open(ingest, options) {
      const server = createServer(createHandler(ingest, options))
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      return {
        send: (sent) => checked(sent, sendRaw(port, sent)),
        close: () => new Promise((resolve) => server.close(resolve)),
      }
    },
  },
  {
    name: 'fetch',
    async open(ingest, options) {
      const handler = toFetchHandler(ingest, options)
      return { send: (sent) => checked(sent, sendFetch(handler, sent)), close: async () => {} }
    },
  },
]

async function checked(sent: Sent, responding: Promise<RawResponse>): Promise<RawResponse> {
  const response = await responding
  const faults = faultsOf(sent, response)
  for (const fault of faults) t.fail(`the OpenAPI document differs: ${fault}`)
  return response
}

/** A whole request in bytes, with a Content-Length unless the headers have a framing of their own. */
export function requestBytes({ method = 'POST', path = '/v1/events/batch', headers = [], body = '' }: Sent): Buffer {
  const bytes = Buffer.from(body)
  const isFramed = headers.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name))
  const all = [['Host', 'localhost'], ...headers, ...(isFramed ? [] : [['Content-Length', String(bytes.length)]])]
  const head = `${method} ${path} HTTP/1.1\r\n${all.map((pair) => `${pair.join(': ')}\r\n`).join('')}\r\n`
  return Buffer.concat([Buffer.from(head), bytes])
}

async function sendRaw(port: number, sent: Sent, options?: { tls: boolean }): Promise<RawResponse> {
  const raw = await openRaw(port, options)
  raw.write(requestBytes(sent))
  const response = await raw.read(sent.method === 'HEAD')
  raw.socket.destroy()
  return response
}

async function sendFetch(handler: (request: Request) => Promise<Response>, sent: Sent): Promise<RawResponse> {
  const { method = 'POST', path = '/v1/events/batch', headers = [], body } = sent
  const pairs = headers.map(([name, value]): [string, string] => [name, value])
  const init: RequestInit = { method, headers: new Headers(pairs) }
  if (body !== undefined && method !== 'GET' && method !== 'HEAD') init.body = body
  const response = await handler(new Request(`http://localhost${path}`, init))
  const bytes = Buffer.from(await response.arrayBuffer())
  return { status: response.status, headers: Object.fromEntries(response.headers), body: bytes.toString(), bytes }
}
