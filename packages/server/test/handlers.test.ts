import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { gunzipSync, gzipSync } from 'node:zlib'
import { batchBytesMax, type EmbeddedIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../src/fetch-handler.ts'
import { createHandler, headersMax } from '../src/node-handler.ts'
import { requestBytes, type Sent } from './edges.ts'
import { listen, openServed } from './open-server.ts'
import { openRaw } from './raw-connection.ts'
import { batchOf, batchOfBytes, collectErrors, headersOf, openTestIngest } from './test-ingest.ts'

type Middleware = (req: IncomingMessage & { body?: unknown }, res: ServerResponse, next: () => void) => void

/** A stack of middleware as Connect and Express run it. */
async function openStack(t: Test, ...stack: Middleware[]) {
  const server = createServer((req, res) => {
    const run = (i: number): void => stack[i]?.(req, res, () => run(i + 1))
    run(0)
  })
  const port = await listen(t, server)
  return async (sent: Sent) => {
    const raw = await openRaw(port)
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
  t.match(await send({ path: '/other', method: 'GET' }), { status: 404, json: { code: 'not-found' } })
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

t.test('a body that a parser left as bytes is used, inflated or not, and has the same limit', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const handler = createHandler(ingest)
  const gzip = [...headers, ['Content-Encoding', 'gzip']] as const
  const leaving = await openStack(
    t,
    bodyParser((body) => body),
    handler,
  )
  t.equal((await leaving({ headers, body: batchOf(3) })).status, 202)
  t.equal(await storedCount(), 3)
  t.equal((await leaving({ headers, body: batchOfBytes(batchBytesMax) })).status, 202)
  t.equal((await leaving({ headers, body: batchOfBytes(batchBytesMax + 1) })).status, 413)
  const chunked = [...headers, ['Transfer-Encoding', 'chunked']] as const
  t.equal((await leaving({ headers: chunked, body: tooLargeInChunks() })).status, 413)
  t.equal((await leaving({ headers: gzip, body: gzipSync(batchOf(2, 'b')) })).status, 202)
  const inflating = await openStack(t, bodyParser(gunzipSync), handler)
  t.equal((await inflating({ headers: gzip, body: gzipSync(batchOf(2, 'a')) })).status, 202)
  t.equal(await storedCount(), 8)
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
    t.match(response.json, {
      code: 'body-consumed',
      retryable: false,
      detail: /mount its handler before the body parser/,
    })
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

function tooLargeInChunks(): string {
  const size = batchBytesMax + 1
  return `${size.toString(16)}\r\n${batchOfBytes(size)}\r\n0\r\n\r\n`
}

const expect = ['Expect', '100-continue'] as const

t.test('Expect: 100-continue gets a 100 if the headers are valid', async (t) => {
  const { raw, headers, storedCount } = await openServed(t)
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
    const opened = await openServed(t)
    const length = ['Content-Length', status === 413 ? '262145' : '100'] as const
    opened.raw.write(requestBytes({ headers: [...(headers ?? opened.headers), expect, length] }))
    t.equal((await opened.raw.read()).status, status)
  }
})

t.test('other expectations are ignored', async (t) => {
  const { raw, headers } = await openServed(t)
  raw.write(requestBytes({ headers: [...headers, ['Expect', 'miracles']], body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
})

t.test('HTTP/1.1 needs a Host, HTTP/1.0 does not', async (t) => {
  const { raw } = await openServed(t)
  raw.write('GET /livez HTTP/1.1\r\n\r\n')
  t.match(await raw.read(), { status: 400, json: { code: 'malformed-request' } })
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
    const { raw, headers, storedCount } = await openServed(t)
    raw.write(requestBytes({ headers: manyHeaders(count, headers, repeats), body: batchOf(1) }))
    const response = await raw.read()
    t.equal(response.status, 431)
    t.equal(response.headers.connection, 'close')
    t.match(response.json, { code: 'headers-too-large', detail: /at most 100 headers/ })
    t.equal(await raw.ended, 'end')
    t.equal(await storedCount(), 0)
  }
  const { raw, headers } = await openServed(t)
  raw.write(requestBytes({ headers: manyHeaders(headersMax, headers), body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ headers: manyHeaders(headersMax, headers, repeats), body: batchOf(1) }))
  t.match((await raw.read()).json, { code: 'repeated-header' })
})

t.test('a lower maxHeadersCount of the server drops no headers unnoticed', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const server = createServer(createHandler(ingest))
  server.maxHeadersCount = 40
  const port = await listen(t, server)
  for (const [count, status] of [
    [39, 202],
    [40, 431],
    [90, 431],
  ] as const) {
    const raw = await openRaw(port)
    raw.write(requestBytes({ headers: manyHeaders(count, headers), body: batchOf(1) }))
    t.equal((await raw.read()).status, status)
    raw.socket.destroy()
  }
  t.equal(await storedCount(), 1)
})

t.test('the request target may be a whole URL, as proxies send it', async (t) => {
  const { raw } = await openServed(t)
  raw.write(requestBytes({ method: 'GET', path: 'http://localhost:1/livez?a=b' }))
  t.equal((await raw.read()).status, 200)
  for (const path of ['*', '//livez', '/%', '/livez%00', 'http://localhost', 'http://[/livez']) {
    raw.write(requestBytes({ method: 'OPTIONS', path }))
    t.equal((await raw.read()).status, 404, path)
  }
})

/** Sends a batch by the fetch API. */
async function post(ingest: EmbeddedIngest, init: RequestInit): Promise<Response> {
  const request = new Request('http://localhost/v1/events/batch', { method: 'POST', duplex: 'half', ...init })
  return toFetchHandler(ingest)(request)
}

t.test('by fetch, a body may be a stream of any chunks', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const chunks = batchOf(5).match(/.{1,7}/g) ?? []
  const body = new ReadableStream({
    pull(controller) {
      const chunk = chunks.shift()
      if (chunk === undefined) controller.close()
      else controller.enqueue(Buffer.from(chunk))
    },
  })
  const response = await post(ingest, { headers, body })
  t.equal(response.status, 202)
  t.strictSame(await response.json(), { accepted: 5, duplicates: 0, rejected: [] })
  t.equal(await storedCount(), 5)
})

t.test('by fetch, an endless stream is read up to the limit and cancelled', async (t) => {
  const { ingest, headers } = await openTestIngest()
  let enqueued = 0
  let isCanceled = false
  const body = new ReadableStream({
    pull(controller) {
      controller.enqueue(Buffer.alloc(10_000))
      enqueued += 10_000
    },
    cancel() {
      isCanceled = true
    },
  })
  const response = await post(ingest, { headers, body })
  t.equal(response.status, 413)
  t.ok(isCanceled)
  t.ok(enqueued < batchBytesMax + 40_000)
})

t.test('by fetch, a stream that fails is a 408, not a malformed batch', async (t) => {
  const { ingest, headers, storedCount } = await openTestIngest()
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from(batchOf(1)))
    },
    pull(controller) {
      controller.error(new Error('gone'))
    },
  })
  const response = await post(ingest, { headers, body })
  t.equal(response.status, 408)
  t.match(await response.json(), { code: 'request-timeout', retryable: true })
  t.equal(await storedCount(), 0)
})

t.test('by fetch, a consumed body is a 500 that names the fix', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const request = new Request('http://localhost/v1/events/batch', { method: 'POST', headers, body: batchOf(1) })
  await request.json()
  const response = await toFetchHandler(ingest)(request)
  t.equal(response.status, 500)
  t.match(await response.json(), { code: 'body-consumed', retryable: false, detail: /before the body parser/ })
})

t.test('by fetch, a Content-Length that is not a number is refused', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const pairs: [string, string][] = [...headers, ['Content-Length', 'many']]
  const response = await post(ingest, { headers: pairs, body: batchOf(1) })
  t.equal(response.status, 400)
  t.match(await response.json(), { code: 'malformed-request' })
})

t.test('by fetch, a parameter of the media type may have a comma in quotes', async (t) => {
  const { ingest, headers } = await openTestIngest()
  for (const [contentType, status] of [
    ['application/json; profile="a,b"', 202],
    ['application/json; profile="a,b", application/json', 400],
  ] as const) {
    const sent = new Headers(headers)
    sent.set('Content-Type', contentType)
    const response = await post(ingest, { headers: sent, body: batchOf(1) })
    t.equal(response.status, status, contentType)
  }
})

t.test('by fetch, a request without a body has an empty body', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const response = await post(ingest, { headers })
  t.equal(response.status, 400)
  t.match(await response.json(), { code: 'malformed-body' })
})
