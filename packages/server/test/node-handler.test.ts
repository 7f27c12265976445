import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync, gzipSync } from 'node:zlib'
import { batchBytesMax } from '@ingest/core'
import t, { type Test } from 'tap'
import { createHandler, headersMax } from '../src/node-handler.ts'
import { serve } from '../src/serve.ts'
import { requestBytes, type Sent } from './edges.ts'
import { openRaw } from './raw-connection.ts'
import { batchOf, batchOfBytes, collectErrors, headersOf, openTestIngest } from './test-ingest.ts'

type Middleware = (req: IncomingMessage & { body?: unknown }, res: ServerResponse, next: () => void) => void

/** A stack of middleware as Connect and Express run it. */
async function openStack(t: Test, ...stack: Middleware[]) {
  const server = createServer((req, res) => {
    const run = (i: number): void => stack[i]?.(req, res, () => run(i + 1))
    run(0)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  return async (sent: Sent) => {
    const raw = await openRaw((server.address() as AddressInfo).port)
    raw.write(requestBytes(sent))
    const response = await raw.read()
    raw.socket.destroy()
    return response
  }
}

/** A body parser: reads the body and sets `req.body` to the result of `parse`. */
const bodyParser =
  (parse: (body: Buffer) => unknown): Middleware =>
  async (req, _res, next) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk)
    req.body = parse(Buffer.concat(chunks))
    next()
  }

t.test('requests of unknown paths are passed on with their body unread', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const send = await openStack(t, createHandler(ingest), (req, res) => {
    req.resume().on('end', () => res.end(`other: ${req.url}`))
    res.setHeader('Content-Length', `other: ${req.url}`.length)
  })
  for (const path of ['/', '/other?a=b', '/v1/events/batch/', '/v1']) {
    t.equal((await send({ path, headers, body: 'anything' })).body, `other: ${path}`)
  }
  t.equal((await send({ headers, body: batchOf(1) })).status, 202)
  t.equal((await send({ method: 'GET' })).status, 405)
  t.equal((await send({ method: 'GET', path: '/livez?a' })).status, 200)
})

t.test('without `next`, an unknown path is a 404', async (t) => {
  const { ingest } = await openTestIngest()
  const handler = createHandler(ingest)
  const send = await openStack(t, (req, res) => handler(req, res))
  const response = await send({ path: '/other', method: 'GET' })
  t.equal(response.status, 404)
  t.equal(JSON.parse(response.body).code, 'not-found')
})

t.test('below a prefix, the path is what the framework left of it', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const handler = createHandler(ingest)
  const send = await openStack(t, (req, res, next) => {
    req.url = req.url?.replace('/ingest', '') ?? ''
    handler(req, res, next)
  })
  t.equal((await send({ path: '/ingest/v1/events/batch', headers, body: batchOf(1) })).status, 202)
})

t.test('a body that a parser left as bytes is used, and has the same limit', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const send = await openStack(
    t,
    bodyParser((body) => body),
    createHandler(ingest),
  )
  t.equal((await send({ headers, body: batchOf(3) })).status, 202)
  t.equal(await storedCount(), 3)
  t.equal((await send({ headers, body: batchOfBytes(batchBytesMax) })).status, 202)
  t.equal((await send({ headers, body: batchOfBytes(batchBytesMax + 1) })).status, 413)
  t.equal(
    (await send({ headers: [...headers, ['Transfer-Encoding', 'chunked']], body: tooLargeInChunks() })).status,
    413,
  )
})

t.test('a body that a parser left as bytes may be inflated', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const gzip = [...headers, ['Content-Encoding', 'gzip']] as const
  const inflating = await openStack(
    t,
    bodyParser((body) => gunzipSync(body)),
    createHandler(ingest),
  )
  t.equal((await inflating({ headers: gzip, body: gzipSync(batchOf(2, 'a')) })).status, 202)
  const leaving = await openStack(
    t,
    bodyParser((body) => body),
    createHandler(ingest),
  )
  t.equal((await leaving({ headers: gzip, body: gzipSync(batchOf(2, 'b')) })).status, 202)
  t.equal(await storedCount(), 4)
})

t.test('a body whose bytes are gone is a 500 that names the fix', async (t) => {
  for (const parse of [
    (body: Buffer) => JSON.parse(body.toString()),
    (body: Buffer) => body.toString(),
    () => undefined,
  ]) {
    const { log, errors } = collectErrors()
    const { ingest, headers, storedCount } = await openTestIngest()
    const send = await openStack(t, bodyParser(parse), createHandler(ingest, { log }))
    const response = await send({ headers, body: batchOf(1) })
    t.equal(response.status, 500)
    t.match(JSON.parse(response.body), { code: 'internal-error', detail: /mount this handler before the body parser/ })
    t.equal(errors.length, 1)
    t.equal(await storedCount(), 0)
  }
})

t.test('req.body of a parser that did not read the body is ignored', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const setEmpty: Middleware = (req, _res, next) => {
    req.body = {}
    next()
  }
  const send = await openStack(t, setEmpty, createHandler(ingest))
  t.equal((await send({ headers, body: batchOf(1) })).status, 202)
})

t.test('a response that another middleware has started is left alone', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const respondFirst: Middleware = (_req, res, next) => {
    next()
    res.setHeader('Content-Length', 5).end('other')
  }
  const send = await openStack(t, respondFirst, createHandler(ingest))
  t.equal((await send({ headers, body: batchOf(1) })).body, 'other')
  t.equal((await send({ headers, body: batchOf(1, 'other') })).body, 'other')
  t.ok((await storedCount()) <= 2)
})

t.test('invalid rate limits are refused at creation', async (t) => {
  const { ingest } = await openTestIngest()
  t.throws(() => createHandler(ingest, { rateLimits: { events: { perSecond: 1, burst: 99 } } }), {
    code: 'invalid-argument',
  })
})

function tooLargeInChunks(): string {
  const size = batchBytesMax + 1
  return `${size.toString(16)}\r\n${batchOfBytes(size)}\r\n0\r\n\r\n`
}

async function open(t: Test) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  t.teardown(() => raw.socket.destroy())
  return { ...opened, raw }
}

const expect = ['Expect', '100-continue'] as const

t.test('Expect: 100-continue gets a 100 if the headers are valid', async (t) => {
  const { raw, headers, storedCount } = await open(t)
  const body = batchOf(2)
  const bytes = requestBytes({ headers: [...headers, expect], body })
  raw.write(bytes.subarray(0, -body.length))
  t.equal((await raw.read()).status, 100)
  raw.write(body)
  t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 2)
})

t.test('Expect: 100-continue gets an error without a 100 if the headers are invalid', async (t) => {
  for (const [status, headers] of [
    [401, headersOf('junk')],
    [413, undefined],
  ] as const) {
    const opened = await open(t)
    const length = ['Content-Length', status === 413 ? '262145' : '100'] as const
    opened.raw.write(requestBytes({ headers: [...(headers ?? opened.headers), expect, length] }))
    t.equal((await opened.raw.read()).status, status)
  }
})

t.test('other expectations are ignored', async (t) => {
  const { raw, headers } = await open(t)
  raw.write(requestBytes({ headers: [...headers, ['Expect', 'miracles']], body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
})

t.test('HTTP/1.1 needs a Host, HTTP/1.0 does not', async (t) => {
  const { raw } = await open(t)
  raw.write('GET /livez HTTP/1.1\r\n\r\n')
  const response = await raw.read()
  t.equal(response.status, 400)
  t.equal(JSON.parse(response.body).code, 'malformed-request')
  raw.write('GET /livez HTTP/1.0\r\n\r\n')
  t.equal((await raw.read()).status, 200)
})

/** `count` headers in total, with `Host` and `Content-Length`. */
function manyHeaders(count: number, headers: readonly (readonly [string, string])[], last: [string, string][] = []) {
  const fillers = Array.from({ length: count - headers.length - last.length - 2 }, () => ['A', ''] as const)
  return [...headers, ...fillers, ...last]
}

t.test('too many headers are refused, as Node drops the last of them', async (t) => {
  const repeats: [string, string][] = [
    ['Content-Encoding', 'identity'],
    ['Content-Encoding', 'gzip'],
  ]
  for (const count of [headersMax + 1, 1050, 2000]) {
    const { raw, headers, storedCount } = await open(t)
    raw.write(requestBytes({ headers: manyHeaders(count, headers, repeats), body: batchOf(1) }))
    const response = await raw.read()
    t.equal(response.status, 431)
    t.equal(response.headers.connection, 'close')
    t.match(JSON.parse(response.body), { code: 'headers-too-large', detail: /at most 100 headers/ })
    t.equal(await raw.ended, 'end')
    t.equal(await storedCount(), 0)
  }
  const { raw, headers } = await open(t)
  raw.write(requestBytes({ headers: manyHeaders(headersMax, headers), body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ headers: manyHeaders(headersMax, headers, repeats), body: batchOf(1) }))
  t.match(JSON.parse((await raw.read()).body), { code: 'repeated-header' })
})

t.test('a lower maxHeadersCount of the server drops no headers unnoticed', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const server = createServer(createHandler(ingest))
  server.maxHeadersCount = 40
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  for (const [count, status] of [
    [39, 202],
    [40, 431],
    [90, 431],
  ] as const) {
    const raw = await openRaw((server.address() as AddressInfo).port)
    raw.write(requestBytes({ headers: manyHeaders(count, headers), body: batchOf(1) }))
    t.equal((await raw.read()).status, status)
    raw.socket.destroy()
  }
  t.equal(await storedCount(), 1)
})

t.test('the request target may be a whole URL, as proxies send it', async (t) => {
  const { raw } = await open(t)
  raw.write(requestBytes({ method: 'GET', path: 'http://localhost:1/livez?a=b' }))
  t.equal((await raw.read()).status, 200)
  for (const path of ['*', '//livez', '/%', '/livez%00', 'http://localhost', 'http://[/livez']) {
    raw.write(requestBytes({ method: 'OPTIONS', path }))
    t.equal((await raw.read()).status, 404, path)
  }
})
