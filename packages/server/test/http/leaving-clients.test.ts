import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createIngest, digestOf, type EmbeddedIngest, openMemoryStore, type Store } from '@ingest/core'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { concurrencyLimits, shareMaxOf } from '../../src/limits/concurrency.ts'
import { createHandler } from '../../src/node-handler.ts'
import { routes } from '../../src/public-router.ts'
import { requestBytes } from '../edges.ts'
import { listen, openServed } from '../open-server.ts'
import { openRaw, type Sent } from '../raw-connection.ts'
import { headersOf, projectId } from '../test-ingest.ts'

/** The number of clients that may read at once. */
const clientCount = shareMaxOf(concurrencyLimits.downloads)
/** How many requests begin on routes that refuse the others, or share a check between them. */
const fewBegin: Record<string, number> = {
  'PUT /v1/maps': shareMaxOf(concurrencyLimits.storedUploads),
  'PUT /v1/maps/chunks': shareMaxOf(concurrencyLimits.storedUploads),
  'GET /readyz': 1,
}
/** Operations that a timer calls, as for activity. Reads of keys, for credentials, are not watched either. */
const unwatched = new Set([
  ...['watch', 'watchCommits', 'registerServer', 'measure', 'close'],
  ...['putActivity', 'sweep'],
])

/** A store that records the operations and rows that begin, and holds them until `open` is called. */
function gatedStore() {
  const memory = openMemoryStore()
  const begun: string[] = []
  let closed: Promise<void> | undefined
  let open = () => {}
  function pass(name: string): Promise<void> | undefined {
    begun.push(name)
    return closed
  }
  const gated = Object.entries(memory).map(([name, operation]): [string, unknown] => {
    if (typeof operation !== 'function' || unwatched.has(name)) return [name, operation]
    if (name !== 'read' && name !== 'activity') {
      return [
        name,
        async (...args: unknown[]) => {
          if (name !== 'entry' || args[0] !== 'project') await pass(name)
          return operation(...args)
        },
      ]
    }
    async function* read(...args: unknown[]) {
      await pass(name)
      for await (const row of operation(...args)) {
        yield row
        await pass(name)
      }
    }
    return [name, read]
  })
  return {
    store: Object.fromEntries(gated) as unknown as Store,
    begun,
    close() {
      closed = new Promise((resolve) => {
        open = resolve
      })
    },
    open: () => open(),
  }
}

/** An Ingest with some of everything, and a request for each route. */
async function openFilled(store: Store) {
  const ingest = createIngest({ store })
  const { key } = await ingest.keys.create(projectId)
  const project = ingest.project(projectId)
  const event = (eventId: string) => ({ projectId, eventId, buildId: eventId })
  for (let i = 0; i < 3; i++) await project.submitBatch({ events: [event(`a${i}`), event(`b${i}`)] })
  await project.submitBatch({ events: [{ projectId, eventId: 1 } as never] })
  for (let i = 0; i < 25; i++) await project.publishMap({ placeId: `${i}`, buildId: 'open', map: [i] })
  const cursor = await project.lastCursor()
  await project.putConsumer('c', { cursor, replaces: null })
  await project.putConsumer('d', { cursor, replaces: null })
  const chunk = Buffer.from('chunk')
  const digest = digestOf(chunk)
  const manifest = { contentType: 'text/plain', size: 5, digest, chunks: [{ digest, size: 5 }] }
  await project.publishMap({ placeId: 'pending', buildId: 'open', manifest })
  const requests: Record<string, [query?: string, body?: string | Buffer, type?: string]> = {
    'POST /v1/events/batch': ['', JSON.stringify({ events: [{ projectId, eventId: 'posted' }] })],
    'GET /v1/events': ['?type=none'],
    'GET /v1/consumers': [],
    'GET /v1/consumers/{name}': [],
    'PUT /v1/consumers/{name}': ['', JSON.stringify({ cursor, replaces: cursor })],
    'DELETE /v1/consumers/{name}': [],
    'GET /v1/maps': ['?buildId=open'],
    'PUT /v1/maps': ['', JSON.stringify({ placeId: 'new', buildId: 'open', map: {} })],
    'GET /v1/maps/chunks': [`?digest=${digestOf(Buffer.from('[3]'))}`],
    'PUT /v1/maps/chunks': [`?digest=${digest}`, chunk, 'application/octet-stream'],
    'GET /v1/maps/content': ['?placeId=3&buildId=open'],
    'GET /v1/stats': [],
    'GET /v1/builds': [],
    'GET /v1/activity': [],
    'GET /v1/rejected': [],
    'GET /livez': [],
    'GET /readyz': [],
    'GET /openapi.json': [],
  }
  function sentTo(route: string): Sent {
    const [method = '', path = ''] = route.split(' ')
    const [query = '', body, type = 'application/json'] = requests[route] ?? []
    const headers = [...headersOf(key).slice(0, 2), ['Content-Type', type]] as [string, string][]
    return { method, path: path.replace('{name}', 'c') + query, headers, ...(body !== undefined && { body }) }
  }
  return { ingest, sentTo, routes: Object.keys(requests) }
}

/** Sends requests; `leave` resolves once the server has seen that their clients have left. */
type Start = (sent: Sent) => Promise<{ leave(): Promise<void>; status: Promise<number> }>

const edges: Record<string, (t: Test, ingest: EmbeddedIngest) => Promise<Start>> = {
  async handler(t, ingest) {
    const server = createServer(createHandler(ingest))
    const open = new Set<Socket>()
    server.on('connection', (socket: Socket) => {
      open.add(socket)
      socket.on('close', () => open.delete(socket))
    })
    const port = await listen(t, server)
    return async (sent) => {
      const raw = await openRaw(port)
      raw.write(requestBytes(sent))
      return {
        status: raw.read(sent.method === 'HEAD').then(({ status }) => status),
        async leave() {
          raw.socket.resetAndDestroy()
          while (open.size > 0) await nextTurn()
        },
      }
    }
  },
  async fetch(_, ingest) {
    const handle = toFetchHandler(ingest)
    return async ({ method = '', path = '', headers = [], body }) => {
      const controller = new AbortController()
      const init = { method, headers: new Headers(headers as [string, string][]), signal: controller.signal }
      const request = new Request(`http://localhost${path}`, { ...init, ...(body !== undefined && { body }) })
      const response = handle(request).then(async (response) => {
        await response.arrayBuffer()
        return response.status
      })
      return { status: response, leave: async () => controller.abort() }
    }
  },
}

for (const [edge, openEdge] of Object.entries(edges)) {
  t.test(`by ${edge}, a request ends when its client leaves, on every route`, async (t) => {
    const { store, begun, close, open } = gatedStore()
    const { ingest, sentTo, routes: asked } = await openFilled(store)
    const all = routes.map(({ method, path }) => `${method} ${path}`)
    t.strictSame(asked, all, 'there is a request for each route')
    const start = await openEdge(t, ingest)
    for (const route of all) {
      begun.length = 0
      close()
      const usesStore = !['GET /livez', 'GET /openapi.json'].includes(route)
      const sent = await Promise.all(Array.from({ length: clientCount }, () => start(sentTo(route))))
      const ended = Promise.allSettled(sent.map(({ status }) => status))
      while (usesStore && begun.length < (fewBegin[route] ?? clientCount)) await nextTurn()
      await Promise.all(sent.map(({ leave }) => leave()))
      const before = begun.length
      open()
      await ended
      // a fetch handler responds to the other requests at once
      while (begun.length < before) await nextTurn()
      for (let i = 0; i < 10; i++) await nextTurn()
      t.strictSame(begun.slice(before), [], `${route}: nothing further of the store`)
      const probe = await start(sentTo(route))
      t.not(await probe.status, 503, `${route}: the slots are free`)
      await probe.leave()
    }
  })
}

t.test('a client that closes its connection ends a scan that finds nothing, whatever else it has sent', async (t) => {
  const memory = openMemoryStore()
  let read = 0
  const store: Store = {
    ...memory,
    async *read(projectId, options = {}) {
      for (;;) {
        read++
        await nextTurn()
        options.signal?.throwIfAborted()
        yield* memory.read(projectId, options)
      }
    },
  }
  const ingest = createIngest({ store })
  const { key } = await ingest.keys.create(projectId)
  const headers = headersOf(key)
  const { connect } = await openServed(t, { ingest })
  const scan: Sent = { method: 'GET', path: '/v1/events?type=none', headers }
  const body = 'x'.repeat(2 ** 20)
  const inBody: Sent = { ...scan, headers: [...headers, ['Content-Length', '1000000000']], body }
  const behind = requestBytes({ headers, body: `{"events":[],"x":"${'x'.repeat(200_000)}"}` })
  for (const [name, bytes] of Object.entries({
    'the request alone': requestBytes(scan),
    'an unread body': requestBytes(inBody),
    'a batch behind it': Buffer.concat([requestBytes(scan), behind]),
    'many requests behind it': Buffer.concat([requestBytes(scan), Buffer.alloc(2 ** 20, 'GET / HTTP/1.1\r\n\r\n')]),
  })) {
    const clients = await Promise.all(
      Array.from({ length: clientCount }, async () => {
        const raw = await connect()
        raw.socket.on('error', () => {})
        raw.write(bytes)
        return raw
      }),
    )
    for (const from = read; read < from + 2 * clientCount; ) await nextTurn()
    for (const { socket } of clients) socket.destroy()
    for (let before = -1; before !== read; ) {
      before = read
      for (let i = 0; i < 3; i++) await nextTurn()
    }
    const probe = await connect()
    probe.write(requestBytes({ ...scan, path: '/v1/consumers' }))
    t.equal((await probe.read()).status, 200, name)
    probe.socket.destroy()
  }
})

t.test('a half-closed connection gets the whole response of a short read, and a cursor for a long one', async (t) => {
  const { ingest, key, connect } = await openServed(t)
  await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'a' }] })
  const raw = await connect()
  raw.socket.end(requestBytes({ method: 'GET', path: '/v1/events?type=none', headers: headersOf(key) }))
  t.match(await raw.read(), { status: 200, body: /^\{"cursor":"[\w-]{32}"\}\n$/ })
})
