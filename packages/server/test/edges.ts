import { createServer } from 'node:http'
import type { EmbeddedIngest, IngestOptions } from '@ingest/core'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../src/fetch-handler.ts'
import { createHandler } from '../src/node-handler.ts'
import type { HandlerOptions } from '../src/public-router.ts'
import { serve } from '../src/serve.ts'
import { certificateA } from './certificates.ts'
import { listen } from './open-server.ts'
import { faultsOf } from './openapi/check-exchange.ts'
import { openRaw, type RawResponse, type Sent, toRawResponse } from './raw-connection.ts'
import { openTestIngest } from './test-ingest.ts'

export type { Sent }

/** Sends a request; the test fails if the response does not match the OpenAPI document. */
export type Send = (sent: Sent) => Promise<RawResponse>

type Open = (t: Test, ingest: EmbeddedIngest, options?: HandlerOptions) => Promise<(sent: Sent) => Promise<RawResponse>>

const openServe =
  (tls: object): Open =>
  async (t, ingest, options) => {
    const served = await serve({ ingest, port: 0, closeTimeoutMs: 1, ...tls, ...options })
    t.teardown(() => served.close())
    return (sent) => sendRaw(served.port, sent, { tls: 'tls' in tls })
  }

/** Every way to reach the router: each list of cases runs over all of them. */
const edges: Readonly<Record<string, Open>> = {
  serve: openServe({}),
  'serve with TLS': openServe({ tls: certificateA }),
  async handler(t, ingest, options) {
    const port = await listen(t, createServer(createHandler(ingest, options)))
    return (sent) => sendRaw(port, sent)
  },
  async fetch(_, ingest, options) {
    const handler = toFetchHandler(ingest, options)
    return (sent) => sendFetch(handler, sent)
  },
}

/** Opens an Ingest and serves it by one edge until the end of the test. */
export type OpenEdge = (
  options?: HandlerOptions,
  ingest?: Omit<IngestOptions, 'store'> | EmbeddedIngest,
) => Promise<Awaited<ReturnType<typeof openTestIngest>> & { send: Send }>

/** Runs a test by every edge. */
export function byEachEdge(name: string, run: (t: Test, open: OpenEdge, edge: string) => Promise<void>): void {
  for (const edge of Object.keys(edges)) {
    t.test(`by ${edge}, ${name}`, (t) => run(t, (options, ingest) => openEdge(t, edge, options, ingest), edge))
  }
}

/** Serves by the fetch API, the fastest edge. */
export const openFetch = (t: Test, ...args: Parameters<OpenEdge>): ReturnType<OpenEdge> => openEdge(t, 'fetch', ...args)

async function openEdge(t: Test, edge: string, ...[options = {}, given]: Parameters<OpenEdge>) {
  const opened = await openTestIngest(given)
  const send = await edges[edge]?.(t, opened.ingest, options)
  return { ...opened, send: async (sent: Sent) => checked(sent, send?.(sent) as Promise<RawResponse>) }
}

async function checked(sent: Sent, responding: Promise<RawResponse>): Promise<RawResponse> {
  const response = await responding
  const faults = faultsOf(sent, response)
  for (const fault of faults) t.fail(`the OpenAPI document differs: ${fault}`)
  return response
}

/** The bytes of a whole request, with a Content-Length unless the headers have their own framing. */
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
  return toRawResponse(response.status, Object.fromEntries(response.headers), bytes)
}
