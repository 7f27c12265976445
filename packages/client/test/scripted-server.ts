import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { type ClientOptions, createClientWith } from '../src/client.ts'

export const projectId = 'game-1'
export const key = 'ik_secret'

/** A received request, with the raw bytes of its body. */
export interface Received {
  method: string
  path: string
  query: Record<string, string>
  headers: IncomingMessage['headers']
  body: Buffer
  /** The number of connections so far. */
  connections: number
}

/** Responds to one request. */
export type Step = (res: ServerResponse, received: Received) => void

/** A server that runs the next step for each request, and repeats the last one. */
export async function openScriptedServer(t: Test, ...steps: Step[]) {
  const received: Received[] = []
  let connections = 0
  const server = createServer(async (req, res) => {
    const url = new URL(req.url ?? '', 'http://a')
    const { method = '', headers } = req
    const body = await buffer(req)
    const request = {
      method,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers,
      body,
      connections,
    }
    const step = steps[Math.min(received.length, steps.length - 1)] as Step
    received.push(request)
    step(res, request)
  })
  server.on('connection', () => connections++)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { server, url: `http://127.0.0.1:${port}`, received }
}

/** A client of such a server, which records its pauses, in milliseconds, instead of sleeping. */
export async function openScriptedClient(t: Test, options: Partial<ClientOptions>, ...steps: Step[]) {
  const scripted = await openScriptedServer(t, ...steps)
  const pauses: number[] = []
  const client = createClientWith(
    { url: scripted.url, projectId, key, ...options },
    {
      random: () => 0.5,
      sleep: async (ms) => pauses.push(ms),
    },
  )
  t.teardown(() => client.close())
  return { ...scripted, client, pauses }
}

export function json(status: number, value: unknown, headers: Record<string, string> = {}): Step {
  return (res) => {
    res.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(value))
  }
}

export function problem(status: number, code: string, more: object = {}, headers: Record<string, string> = {}): Step {
  const type = { 'Content-Type': 'application/problem+json' }
  return json(status, { status, code, detail: `Refused: ${code}.`, ...more }, { ...type, ...headers })
}

export function text(status: number, body: string, headers: Record<string, string> = {}): Step {
  return (res) => {
    res.writeHead(status, { 'Content-Type': 'text/html', ...headers }).end(body)
  }
}

/** Closes the connection without a response. */
export const cut: Step = (res) => res.socket?.destroy()

/** Never responds. */
export const stall: Step = () => {}

/** Sends the start of a response and closes the connection. */
export function cutAfter(start: string | Buffer, headers: Record<string, string> = {}, status = 200): Step {
  return (res) => {
    res.writeHead(status, headers)
    res.write(start, () => res.socket?.destroySoon())
  }
}

/** The result of a client for a body: its times are in milliseconds. */
export function withUnixTimes<T extends object>(body: T): T {
  return JSON.parse(JSON.stringify(body), (_, value) => (/^\d{4}-.*T.*Z$/.test(value) ? Date.parse(value) : value))
}
