import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { type ApiRequest, type Connection, createConnection, type SendOptions } from '../../src/http/connection.ts'
import { connectionsMax } from '../../src/http/transport.ts'
import { cut, cutAfter, json, openScriptedServer, problem, type Step, stall, text } from '../scripted-server.ts'

const now = () => Date.parse('2026-11-20T17:51:00Z')
const options = { timeoutMs: 60_000, totalMs: 60_000 }
const get: ApiRequest = { path: '/v1/maps' }

function connect(t: Test, url: string, headers: Record<string, string> = { 'x-project-id': 'game-1' }) {
  const connection = createConnection({ url, headers, now })
  t.teardown(() => connection.close())
  return connection
}

async function open(t: Test, ...steps: Step[]) {
  const scripted = await openScriptedServer(t, ...steps)
  return { ...scripted, connection: connect(t, scripted.url) }
}

/** A server that responds to every connection with these bytes. */
async function openRawServer(t: Test, bytes: string, leave: (socket: Socket) => void = () => {}) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => socket.write(bytes, () => leave(socket)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The text of a response. */
async function read(connection: Connection, request = get, sendOptions: SendOptions = options): Promise<string> {
  return textOf((await connection.send(request, sendOptions)).body)
}

t.test(
  'a request has its method, path, query, headers and body; a response its status, headers and body',
  async (t) => {
    const { connection, received } = await open(t, json(201, { a: 1 }, { 'X-One': '1' }))
    const response = await connection.send(
      {
        method: 'PUT',
        path: '/v1/maps',
        query: { placeId: 'a b&c', buildId: 'ü', limit: 7, cursor: undefined },
        headers: { 'content-type': 'text/plain' },
        body: Buffer.from('hello'),
        expect: [200, 201],
      },
      options,
    )
    t.match(response, { status: 201, headers: { 'x-one': '1' } })
    t.equal(await textOf(response.body), '{"a":1}')
    t.match(received, [
      {
        method: 'PUT',
        path: '/v1/maps',
        headers: { 'x-project-id': 'game-1', 'content-type': 'text/plain', 'content-length': '5' },
        body: Buffer.from('hello'),
      },
    ])
    t.strictSame(received[0]?.query, { placeId: 'a b&c', buildId: 'ü', limit: '7' })
  },
)

t.test('a path prefix of the url is kept', async (t) => {
  const { url, received } = await open(t, json(200, {}))
  for (const prefix of ['', '/', '/games/ingest', '/games/ingest/?']) await read(connect(t, `${url}${prefix}`))
  t.strictSame(
    received.map(({ path }) => path),
    ['/v1/maps', '/v1/maps', '/games/ingest/v1/maps', '/games/ingest/v1/maps'],
  )
})

t.test('connections are reused', async (t) => {
  const { connection, received } = await open(t, json(200, {}))
  for (let i = 0; i < 20; i++) await read(connection)
  // the second request may start before the first connection is free
  t.ok((received.at(-1)?.connections ?? 0) <= 2)
})

t.test('a proxy that reads a refused body as another request gets the next one on a new connection', async (t) => {
  const body = Buffer.from('{"events":[]}')
  const empty = (status: string) => `HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`
  let connections = 0
  const server = createServer((socket) => {
    const isFirst = connections++ === 0
    let received = ''
    let isDone = false
    socket.on('error', () => {})
    socket.on('data', (data) => {
      received += data
      if (isDone) socket.write(empty('400 Bad Request'))
      else if (received.endsWith(String(body))) {
        isDone = true
        socket.write(isFirst ? empty('413 Content Too Large') : empty('202 Accepted'))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const connection = connect(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const post: ApiRequest = { method: 'POST', path: '/v1/events/batch', body, expect: [202] }
  await t.rejects(read(connection, post), { code: 'body-too-large' })
  // until the pool would use the connection again
  for (let i = 0; i < 10; i++) await turn()
  t.equal(await read(connection, post), '')
  t.equal(connections, 2)
})

const failures: [string, Step, object][] = [
  ['a problem', problem(409, 'map-frozen', { detail: 'Frozen.' }), { code: 'map-frozen', message: 'Frozen.' }],
  [
    'Retry-After as a date',
    problem(503, 'overloaded', {}, { 'Retry-After': 'Fri, 20 Nov 2026 17:51:09 GMT' }),
    { code: 'overloaded', retryAfterSeconds: 9 },
  ],
  ['a page of a proxy', text(502, '<html>'), { code: 'connection-failed', retryable: true }],
  ['an error with a long body', text(413, 'x'.repeat(1_000_000)), { code: 'body-too-large' }],
  [
    'a redirect',
    text(307, '', { Location: 'http://127.0.0.1:1/' }),
    { code: 'unexpected-response', message: /redirect/ },
  ],
  ['a body that is compressed', text(200, 'x', { 'Content-Encoding': 'gzip' }), { code: 'unexpected-response' }],
  ['a connection that is closed without a response', cut, { code: 'connection-failed', retryable: true }],
]
for (const [name, step, expected] of failures) {
  t.test(`${name} throws`, async (t) => {
    const { connection, received } = await open(t, step)
    await t.rejects(read(connection), { name: 'IngestError', ...expected })
    t.equal(received.length, 1)
  })
}

t.test('no error shows a key that the response repeats, not even a part of it', async (t) => {
  const key = 'ik_secret'
  // messages are cut after 1,000 characters, within one of the keys
  const echo = Array.from({ length: 200 }, () => key).join('-')
  const { url } = await openScriptedServer(
    t,
    problem(401, 'unauthorized', { detail: echo }),
    problem(503, 'overloaded', { detail: `12345${echo}` }),
    text(307, '', { Location: `http://127.0.0.1:1/${echo}` }),
  )
  const urls = [url, url, url, await openRawServer(t, `${echo}\r\n\r\n`)]
  for (const each of urls) {
    const connection = connect(t, each, { 'x-ingestion-key': key })
    const error = await connection.send(get, options).then(() => 'no error', inspect)
    t.match(error, 'IngestError')
    t.notMatch(error, /ik_|secr/)
  }
})

t.test('an unreachable server is connection-failed', async (t) => {
  const { server, connection, url } = await open(t, stall)
  await new Promise((resolve) => server.close(resolve))
  await t.rejects(read(connection), { code: 'connection-failed', message: url, cause: Error })
  await t.rejects(read(connect(t, 'http://ingest.invalid')), { code: 'connection-failed' })
})

/** Interim responses of a proxy: hints with headers, and two that say nothing. */
const interim = [
  'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nRetry-After: 9\r\n\r\n',
  'HTTP/1.1 102 Processing\r\n\r\n',
  'HTTP/1.1 199 Unassigned\r\n\r\n',
]
const final = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal'

t.test(
  'interim responses precede the final one, in any number and in any packets (RFC 9110 section 15.2)',
  async (t) => {
    const oneByOne = (socket: Socket) => {
      const parts = [...interim, final]
      const write = () => socket.write(parts.shift() ?? '', () => parts.length > 0 && setImmediate(write))
      write()
    }
    for (const url of [
      await openRawServer(t, interim[0] + final),
      await openRawServer(t, [...interim, ...interim, final].join('')),
      await openRawServer(t, '', oneByOne),
    ]) {
      const connection = connect(t, url)
      const response = await connection.send(get, options)
      t.match([response.status, response.headers['retry-after']], [200, undefined])
      t.equal(await textOf(response.body), 'final')
    }
  },
)

t.test('interim responses do not restart the time-out', async (t) => {
  const url = await openRawServer(t, '', (socket) => {
    const timer = setInterval(() => socket.write(interim[1] as string), 5)
    socket.once('close', () => clearInterval(timer))
  })
  const expected = { code: 'request-timeout', message: /400 ms/ }
  await t.rejects(read(connect(t, url), get, { ...options, timeoutMs: 400 }), expected)
})

t.test('a response that is not HTTP is unexpected-response', async (t) => {
  for (const bytes of ['SSH-2.0-OpenSSH_9.2\r\n', 'HTTP/1.1 abc\r\n\r\n', '\x00\x01\x02\x03\r\n\r\n']) {
    await t.rejects(read(connect(t, await openRawServer(t, bytes))), { code: 'unexpected-response' }, bytes)
  }
})

t.test('a truncated response is connection-failed', async (t) => {
  const start = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello'
  for (const leave of [(socket: Socket) => socket.end(), (socket: Socket) => socket.resetAndDestroy()]) {
    const url = await openRawServer(t, start, (socket) => setImmediate(leave, socket))
    await t.rejects(read(connect(t, url)), { code: 'connection-failed' })
  }
  const { connection } = await open(t, cutAfter('hello'))
  await t.rejects(read(connection), { code: 'connection-failed' }, 'also without a Content-Length')
})

t.test('the time-out covers the response and its whole body', async (t) => {
  const drip: Step = (res) => {
    res.writeHead(200)
    let left = 300
    const timer = setInterval(() => (--left > 0 ? res.write('a') : res.end()), 5)
    res.once('close', () => clearInterval(timer))
  }
  const half: Step = (res) => void res.writeHead(200, { 'Content-Length': '9' }).write('a')
  await Promise.all(
    [stall, drip, half].map(async (step) => {
      const { connection } = await open(t, step)
      const expected = { code: 'request-timeout', message: /400 ms/ }
      await t.rejects(read(connection, get, { ...options, timeoutMs: 400 }), expected)
    }),
  )
})

t.test('the time-out does not cover the time of a reader', async (t) => {
  const timeoutMs = 400
  let write = () => {}
  const { connection } = await open(t, (res) => {
    write = () => void res.write('a')
    res.writeHead(200)
    write()
  })
  const { body } = await connection.send(get, { ...options, timeoutMs })
  const chunks = body[Symbol.asyncIterator]()
  t.match(await chunks.next(), { done: false })
  await new Promise((resolve) => setTimeout(resolve, 2 * timeoutMs))
  write()
  t.match(await chunks.next(), { done: false })
  await t.rejects(chunks.next(), { code: 'request-timeout' })
})

t.test('the time-out does not cover the wait for a connection', async (t) => {
  const held: ServerResponse[] = []
  const { connection, received } = await open(t, (res) => {
    if (held.push(res) > connectionsMax) res.end('later')
  })
  const first = Promise.all(Array.from({ length: connectionsMax }, () => read(connection)))
  while (held.length < connectionsMax) await turn()
  const timeoutMs = 400
  const waiting = read(connection, get, { ...options, timeoutMs })
  const expected = { code: 'request-timeout', message: /no connection within 200 ms/ }
  await t.rejects(read(connection, get, { timeoutMs, totalMs: 200 }), expected)
  await new Promise((resolve) => setTimeout(resolve, timeoutMs))
  t.equal(received.length, connectionsMax)
  for (const res of held) res.end()
  t.equal(await waiting, 'later')
  await first
})

/** Sends the start of a response; `closed` resolves when the client closes the connection. */
async function openUnfinished(t: Test) {
  let closed: Promise<unknown> | undefined
  const opened = await open(t, (res) => {
    closed = once(res, 'close')
    res.writeHead(200).write('a')
  })
  return { ...opened, closed: () => closed }
}

t.test('a signal aborts a request before, during and after its headers, with its reason', async (t) => {
  const reason = new Error('aborted by the test')
  const before = await open(t, stall)
  await t.rejects(read(before.connection, get, { ...options, signal: AbortSignal.abort(reason) }), reason)
  t.equal(before.received.length, 0)

  const controller = new AbortController()
  const during = await open(t, () => controller.abort(reason))
  await t.rejects(read(during.connection, get, { ...options, signal: controller.signal }), reason)

  const later = new AbortController()
  const after = await openUnfinished(t)
  const { body } = await after.connection.send(get, { ...options, signal: later.signal })
  const reading = t.rejects(textOf(body), reason)
  setImmediate(() => later.abort(reason))
  await reading
  await after.closed()
})

t.test('a reader that stops early, or discards a response, releases the connection', async (t) => {
  const { connection, closed } = await openUnfinished(t)
  const { body } = await connection.send(get, options)
  for await (const _ of body) break
  await closed()
  const { discard } = await connection.send(get, options)
  discard()
  await closed()
})

t.test('close aborts responses and rejects new requests', async (t) => {
  const { connection, received } = await open(t, (res) => void res.writeHead(200).write('a'))
  const { body } = await connection.send(get, options)
  const chunks = body[Symbol.asyncIterator]()
  await chunks.next()
  const next = t.rejects(chunks.next(), { code: 'store-closed' })
  const called = t.rejects(read(connection), { code: 'store-closed' })
  await connection.close()
  await Promise.all([next, called])
  await t.rejects(read(connection), { code: 'store-closed' })
  t.ok(received.length <= 2)
})

t.test('a lone surrogate in the query throws', async (t) => {
  const { connection, received } = await open(t, json(200, {}))
  await t.rejects(read(connection, { ...get, query: { buildId: 'a\ud800' } }), { code: 'invalid-argument' })
  t.equal(received.length, 0)
})

t.test('a bug is not reported as a network error', async (t) => {
  const { connection } = await open(t, json(200, {}))
  const error = await read(connection, { ...get, headers: { a: 'b\nc' } }).catch((error) => error)
  t.ok(error instanceof Error && !(error instanceof IngestError))
})
