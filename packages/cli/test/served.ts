import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createIngest, eventLine, type Ingest, openMemoryStore, type Store } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import type { Test } from 'tap'
import { ingest } from './run-ingest.ts'

export const projectId = 'game-1'

export interface ServedOptions {
  /** Default: a memory store. */
  store?: Store
  now?: () => number
  server?: string
}

/** Serves a store over HTTP in this process until the end of the test, with a key of `game-1`. */
export async function openServed(
  t: Test,
  { store = openMemoryStore(), now, server: name, ...limits }: ServedOptions = {},
) {
  const embedded = createIngest({ store, ...(now && { now }), ...(name !== undefined && { server: name }) })
  const { key } = await embedded.keys.create(projectId)
  const server = await serve({ ingest: embedded, port: 0, ...limits })
  t.teardown(async () => {
    await server.close()
    await embedded.close()
  })
  const env = { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }
  return { url: server.url, key, env, embedded, project: embedded.project(projectId) }
}

/** Opens the store of a directory while `use` runs. */
export async function withStore<T>(data: string, use: (project: Ingest) => Promise<T>, now = Date.now): Promise<T> {
  const embedded = createIngest({ store: await openLmdbStore(data), now })
  try {
    return await use(embedded.project(projectId))
  } finally {
    await embedded.close()
  }
}

/** Submits small events with these ids. */
export async function submitIds(project: Ingest, ids: readonly string[], filler = ''): Promise<void> {
  for (let at = 0; at < ids.length; at += 100) {
    const events = ids.slice(at, at + 100).map((eventId) => ({ projectId, eventId, ...(filler && { filler }) }))
    await project.submitBatch({ events })
  }
}

/** All events of a project in order, each as it is printed. */
export async function storedEvents(project: Ingest): Promise<string[]> {
  const lines: string[] = []
  for await (const event of project.readEvents()) lines.push(eventLine(event).toString())
  return parseExport(lines.join('')).map(({ event }) => event)
}

/** A line of `ingest export`, with the event as it was printed. */
export interface ExportedLine {
  cursor: string
  receivedAt: number
  event: string
}

export function parseExport(stdout: string): ExportedLine[] {
  return stdout.split('\n').flatMap((line) => {
    if (line === '') return []
    const { cursor, receivedAt } = JSON.parse(line)
    return { cursor, receivedAt, event: line.slice(line.indexOf('"event":') + '"event":'.length, -1) }
  })
}

/** The ids of the events that `ingest export` prints for a directory. */
export async function exportedIds(data: string): Promise<string[]> {
  const { code, stdout, stderr } = await ingest(['export', '--store', data, '--project', projectId])
  if (code !== 0) throw new Error(stderr)
  return parseExport(stdout).map(({ event }) => JSON.parse(event).eventId)
}

/** The output of `ingest export` for a project of a store, without the cursors, which differ between stores. */
export async function exportedWithoutCursors(
  store: readonly string[],
  project: string,
  env: Record<string, string> = {},
): Promise<string> {
  const { code, stdout, stderr } = await ingest(['export', ...store, '--project', project], { env })
  if (code !== 0) throw new Error(stderr)
  return stdout.replaceAll(/^\{"cursor":"[\w-]*",/gm, '{')
}

/** `<name>-0`, `<name>-1`, … */
export function idsOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${i}`)
}

/** Events as lines of JSON, with ids `<name>-0`, `<name>-1`, … */
export function linesOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `{"projectId":"${projectId}","eventId":"${name}-${i}","n":${i}}`)
}

/** Creates a key, and a missing store. */
export async function createKey(data: string): Promise<string> {
  const { keys, close } = createIngest({ store: await openLmdbStore(data) })
  const { key } = await keys.create(projectId)
  await close()
  return key
}

/** A server, and the key of a project on it. */
export interface Sender {
  url: string
  key: string
  /** Default: `game-1`. */
  projectId?: string
}

export interface Sent {
  status: number
  headers: Headers
  body: { accepted?: number; duplicates?: number; rejected?: unknown[]; code?: string }
}

/** Sends a batch: a body, or the ids of small events. */
export async function send(sender: Sender, batch: readonly string[] | string): Promise<Sent> {
  const { url, key, projectId: project = projectId } = sender
  const response = await fetch(`${url}/v1/events/batch`, {
    method: 'POST',
    headers: { 'X-Project-Id': project, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: typeof batch === 'string' ? batch : batchOf(batch, project),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Sent['body'] }
}

export function batchOf(eventIds: readonly string[], project = projectId): string {
  return JSON.stringify({ events: eventIds.map((eventId) => ({ projectId: project, eventId })) })
}

/** A proxy in front of a server. `onRequest` is called before each request is forwarded. */
export interface Proxy {
  url: string
  /** While true, requests are reset. */
  isDown: boolean
  /** Resets all connections. */
  reset(): void
}

/** Starts a proxy until the end of the test. */
export async function startProxy(
  t: Test,
  urlOf: () => string,
  onRequest: (req: IncomingMessage) => Promise<void> | void = () => {},
): Promise<Proxy> {
  const server = createServer(async (req, res) => {
    if (!proxy.isDown) await onRequest(req)
    if (proxy.isDown || req.destroyed) return void req.socket.destroy()
    const { method, headers, url = '' } = req
    const forwarded = request(new URL(url, urlOf()), { method, headers }, (response) => {
      res.writeHead(response.statusCode ?? 502, response.headers)
      response.on('error', () => res.destroy())
      response.pipe(res)
    })
    forwarded.on('error', () => res.destroy())
    req.on('error', () => forwarded.destroy())
    req.pipe(forwarded)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const proxy: Proxy = { url: `http://127.0.0.1:${port}`, isDown: false, reset: () => server.closeAllConnections() }
  return proxy
}
