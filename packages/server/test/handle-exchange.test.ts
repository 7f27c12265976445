import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createHandler, headersMax } from '../src/node-handler.ts'
import { serve } from '../src/serve.ts'
import { batchOf, headersOf, openTestIngest } from './batches.ts'
import { requestBytes } from './edges.ts'
import { openRaw } from './raw-exchange.ts'

async function open(t: Test) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  t.teardown(() => raw.socket.destroy())
  return { ...opened, raw }
}

const expect = ['Expect', '100-continue'] as const

t.test('who waits to be told is told to go on when the headers are good', async (t) => {
  const { raw, headers, storedCount } = await open(t)
  const body = batchOf(2)
  const bytes = requestBytes({ headers: [...headers, expect], body })
  raw.write(bytes.subarray(0, -body.length))
  t.equal((await raw.read()).status, 100)
  raw.write(body)
  t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 2)
})

t.test('who waits to be told gets a refusal without being told to go on', async (t) => {
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
  const answer = await raw.read()
  t.equal(answer.status, 400)
  t.equal(JSON.parse(answer.body).code, 'malformed-request')
  raw.write('GET /livez HTTP/1.0\r\n\r\n')
  t.equal((await raw.read()).status, 200)
})

/** As many as they say, with `Host` and `Content-Length`. */
function manyHeaders(count: number, headers: readonly (readonly [string, string])[], last: [string, string][] = []) {
  const fillers = Array.from({ length: count - headers.length - last.length - 2 }, () => ['A', ''] as const)
  return [...headers, ...fillers, ...last]
}

t.test('too many headers are refused, as Node hides those behind', async (t) => {
  const repeats: [string, string][] = [
    ['Content-Encoding', 'identity'],
    ['Content-Encoding', 'gzip'],
  ]
  for (const count of [headersMax + 1, 1050, 2000]) {
    const { raw, headers, storedCount } = await open(t)
    raw.write(requestBytes({ headers: manyHeaders(count, headers, repeats), body: batchOf(1) }))
    const answer = await raw.read()
    t.equal(answer.status, 431)
    t.equal(answer.headers.connection, 'close')
    t.match(JSON.parse(answer.body), { code: 'headers-too-large', detail: /at most 100 headers/ })
    t.equal(await raw.ended, 'end')
    t.equal(await storedCount(), 0)
  }
  const { raw, headers } = await open(t)
  raw.write(requestBytes({ headers: manyHeaders(headersMax, headers), body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ headers: manyHeaders(headersMax, headers, repeats), body: batchOf(1) }))
  t.match(JSON.parse((await raw.read()).body), { code: 'repeated-header' })
})

t.test('a server that is set to take fewer headers does not hide any', async (t) => {
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

t.test('a path may come as a whole URL, as proxies send it', async (t) => {
  const { raw } = await open(t)
  raw.write(requestBytes({ method: 'GET', path: 'http://localhost:1/livez?a=b' }))
  t.equal((await raw.read()).status, 200)
  for (const path of ['*', '//livez', '/%', '/livez%00', 'http://localhost', 'http://[/livez']) {
    raw.write(requestBytes({ method: 'OPTIONS', path }))
    t.equal((await raw.read()).status, 404, path)
  }
})
