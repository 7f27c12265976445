import { type AddressInfo, createServer, type Socket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { type ApiRequest, createConnection } from '../../src/http/connection.ts'
import { cut, cutAfter, json, openScriptedServer, problem, type Step, stall, text } from '../scripted-server.ts'

const now = () => Date.parse('2026-11-20T17:51:00Z')
const patience = { timeoutMs: 60_000, isStream: false }
const get: ApiRequest = { method: 'GET', path: '/v1/maps' }

function connect(t: Test, url: string) {
  const connection = createConnection({ url, headers: { 'x-project-id': 'game-1' }, now })
  t.teardown(() => connection.close())
  return connection
}

async function open(t: Test, ...steps: Step[]) {
  const scripted = await openScriptedServer(t, ...steps)
  return { ...scripted, connection: connect(t, scripted.url) }
}

/** A server that answers whatever comes with these bytes, and nothing more. */
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

t.test('a request arrives as it was meant', async (t) => {
  const { connection, received } = await open(t, json(200, { a: 1 }, { 'X-One': '1' }))
  const reply = await connection.send(
    {
      method: 'PUT',
      path: '/v1/maps',
      query: { placeId: 'a b&c', buildId: 'ü', limit: 7, cursor: undefined },
      headers: { 'content-type': 'text/plain' },
      body: Buffer.from('hello'),
    },
    patience,
  )
  t.match(reply, { status: 200, headers: { 'x-one': '1' } })
  t.equal(await textOf(reply.body), '{"a":1}')
  t.match(received, [
    {
      method: 'PUT',
      path: '/v1/maps',
      query: { placeId: 'a b&c', buildId: 'ü', limit: '7' },
      headers: { 'x-project-id': 'game-1', 'content-type': 'text/plain', 'content-length': '5' },
      body: Buffer.from('hello'),
    },
  ])
  t.notOk('cursor' in (received[0]?.query ?? {}))
})

t.test('a path in front of /v1 is kept', async (t) => {
  const { url, received } = await open(t, json(200, {}))
  for (const prefix of ['', '/', '/games/ingest', '/games/ingest/']) {
    const { body } = await connect(t, `${url}${prefix}`).send(get, patience)
    await textOf(body)
  }
  t.strictSame(
    received.map(({ path }) => path),
    ['/v1/maps', '/v1/maps', '/games/ingest/v1/maps', '/games/ingest/v1/maps'],
  )
})

t.test('connections are used again', async (t) => {
  const { connection, received } = await open(t, json(200, {}))
  for (let i = 0; i < 20; i++) await textOf((await connection.send(get, patience)).body)
  // the next request may find the first one not quite free yet
  t.ok((received.at(-1)?.connections ?? 0) <= 2)
})

const refusals: [string, Step, object][] = [
  ['a problem', problem(409, 'map-frozen', { detail: 'Frozen.' }), { code: 'map-frozen', message: 'Frozen.' }],
  [
    'Retry-After as a date',
    problem(503, 'overloaded', {}, { 'Retry-After': 'Fri, 20 Nov 2026 17:51:09 GMT' }),
    { code: 'overloaded', retryAfterSeconds: 9 },
  ],
  ['a page of a proxy', text(502, '<html>'), { code: 'connection-failed', retryable: true }],
  ['a refusal without end', text(413, 'x'.repeat(1_000_000)), { code: 'body-too-large' }],
  [
    'a redirect',
    text(307, '', { Location: 'http://127.0.0.1:1/' }),
    { code: 'unexpected-response', message: /redirect/ },
  ],
  ['a body that is compressed', text(200, 'x', { 'Content-Encoding': 'gzip' }), { code: 'unexpected-response' }],
  ['a cut instead of an answer', cut, { code: 'connection-failed', retryable: true }],
]
for (const [name, step, expected] of refusals) {
  t.test(`${name} is a refusal`, async (t) => {
    const { connection, received } = await open(t, step)
    await t.rejects(connection.send(get, patience), { name: 'IngestError', ...expected })
    t.equal(received.length, 1)
  })
}

t.test('a server that is not there is a failed connection', async (t) => {
  const { server, connection, url } = await open(t, stall)
  await new Promise((resolve) => server.close(resolve))
  await t.rejects(connection.send(get, patience), { code: 'connection-failed', message: url, cause: Error })
  await t.rejects(connect(t, 'http://ingest.invalid').send(get, patience), { code: 'connection-failed' })
})

t.test('an answer that is not HTTP is unexpected', async (t) => {
  for (const bytes of ['SSH-2.0-OpenSSH_9.2\r\n', 'HTTP/1.1 abc\r\n\r\n', '\x00\x01\x02\x03\r\n\r\n']) {
    await t.rejects(
      connect(t, await openRawServer(t, bytes)).send(get, patience),
      { code: 'unexpected-response' },
      bytes,
    )
  }
})

t.test('an answer that ends before its end is a failed connection', async (t) => {
  const start = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello'
  for (const leave of [(socket: Socket) => socket.end(), (socket: Socket) => socket.resetAndDestroy()]) {
    const url = await openRawServer(t, start, (socket) => setImmediate(leave, socket))
    const reading = connect(t, url)
      .send(get, patience)
      .then(({ body }) => textOf(body))
    await t.rejects(reading, { code: 'connection-failed' })
  }
  const { connection } = await open(t, cutAfter('hello'))
  const { body } = await connection.send(get, patience)
  await t.rejects(textOf(body), { code: 'connection-failed' }, 'without a length as well')
})

t.test('a try has so much time and no more, for its answer and all of its body', async (t) => {
  const drip: Step = (res) => {
    res.writeHead(200)
    let left = 300
    const timer = setInterval(() => (--left > 0 ? res.write('a') : res.end()), 5)
    res.once('close', () => clearInterval(timer))
  }
  const half: Step = (res) => void res.writeHead(200, { 'Content-Length': '9' }).write('a')
  for (const step of [stall, drip, half]) {
    const { connection } = await open(t, step)
    const reading = connection.send(get, { timeoutMs: 400, isStream: false }).then(({ body }) => textOf(body))
    await t.rejects(reading, { code: 'request-timeout', message: /400 ms/ })
  }
})

t.test('what streams has so much time for each part, and the time of its reader is not counted', async (t) => {
  const timeoutMs = 400
  let write = () => {}
  const { connection } = await open(t, (res) => {
    write = () => void res.write('a')
    res.writeHead(200)
    write()
  })
  const { body } = await connection.send(get, { timeoutMs, isStream: true })
  const pieces = body[Symbol.asyncIterator]()
  t.match(await pieces.next(), { done: false })
  await new Promise((resolve) => setTimeout(resolve, 2 * timeoutMs))
  write()
  t.match(await pieces.next(), { done: false })
  await t.rejects(pieces.next(), { code: 'request-timeout' })
})

t.test('a signal ends a request with its reason, at any time', async (t) => {
  const reason = new Error('no longer wanted')
  const before = await open(t, stall)
  await t.rejects(before.connection.send(get, { ...patience, signal: AbortSignal.abort(reason) }), reason)
  t.equal(before.received.length, 0)

  const controller = new AbortController()
  const during = await open(t, () => controller.abort(reason))
  await t.rejects(during.connection.send(get, { ...patience, signal: controller.signal }), reason)

  const later = new AbortController()
  const after = await open(t, (res) => void res.writeHead(200).write('a'))
  const { body } = await after.connection.send(get, { ...patience, signal: later.signal })
  const pieces = body[Symbol.asyncIterator]()
  await pieces.next()
  later.abort(reason)
  await t.rejects(pieces.next(), reason)
})

t.test('a reader that leaves lets go of the connection', async (t) => {
  let closed = () => {}
  const isClosed = new Promise<void>((resolve) => {
    closed = resolve
  })
  const { connection } = await open(t, (res) => {
    res.once('close', closed).writeHead(200).write('a')
  })
  const { body } = await connection.send(get, { ...patience, isStream: true })
  for await (const _ of body) break
  await isClosed
})

t.test('an answer that is left unread lets go of the connection', async (t) => {
  let closed = () => {}
  const isClosed = new Promise<void>((resolve) => {
    closed = resolve
  })
  const { connection } = await open(t, (res) => {
    res.once('close', closed).writeHead(200).write('a')
  })
  const { discard: leave } = await connection.send(get, patience)
  leave()
  await isClosed
})

t.test('after closing, nothing is sent, and what was read is cut', async (t) => {
  const { connection, received } = await open(t, (res) => void res.writeHead(200).write('a'))
  const { body } = await connection.send(get, patience)
  const pieces = body[Symbol.asyncIterator]()
  await pieces.next()
  const next = t.rejects(pieces.next(), { code: 'store-closed' })
  await connection.close()
  await next
  await t.rejects(connection.send(get, patience), { code: 'store-closed' })
  t.equal(received.length, 1)
})

t.test('a name with a lone surrogate is refused, as it would become another one', async (t) => {
  const { connection, received } = await open(t, json(200, {}))
  await t.rejects(connection.send({ ...get, query: { buildId: 'a\ud800' } }, patience), { code: 'invalid-argument' })
  t.equal(received.length, 0)
})

t.test('what is wrong with the program is not taken for the network', async (t) => {
  const { connection } = await open(t, json(200, {}))
  const error = await connection.send({ ...get, headers: { a: 'b\nc' } }, patience).catch((error) => error)
  t.ok(error instanceof Error && !(error instanceof IngestError))
})

t.test('a url says where and nothing else', async (t) => {
  for (const url of ['', 'ingest.example', 'ftp://a', 'http://a:b@c', 'http://@c/?', 'http://a/?b=c', 'http://a/#b']) {
    const make = () => createConnection({ url, headers: {} }).close()
    if (url === 'http://@c/?') await make()
    else t.throws(make, { code: 'invalid-argument' }, url)
  }
})
