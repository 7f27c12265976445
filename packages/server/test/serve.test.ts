import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { concurrencyLimits } from '../src/limits/concurrency.ts'
import type { Log } from '../src/log.ts'
import { createMetrics } from '../src/metrics/metrics.ts'
import { lingerMs, type ServeOptions, serve } from '../src/serve.ts'
import { certificateA } from './certificates.ts'
import { requestBytes } from './edges.ts'
import { openRaw } from './raw-connection.ts'
import { batchOf, openBlockedIngest, openTestIngest, projectId } from './test-ingest.ts'

/** Longer than a test may take: the server must end without it. By default, servers of these tests close at once. */
const patient = { closeTimeoutMs: 600_000 }

async function open(t: Test, options: Partial<ServeOptions> = {}) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1, ...options })
  t.teardown(() => served.close())
  const openConnection = async () => {
    const raw = await openRaw(served.port, { tls: options.tls !== undefined })
    t.teardown(() => raw.socket.destroy())
    return raw
  }
  return { ...opened, served, openConnection, raw: await openConnection() }
}

const schemes: [string, Partial<ServeOptions>][] = [
  ['HTTP', {}],
  ['HTTPS', { tls: certificateA }],
]

async function openBlocked(t: Test, options: Partial<ServeOptions> = {}) {
  const blocked = await openBlockedIngest()
  t.teardown(blocked.release)
  return { ...(await open(t, { ingest: blocked.ingest, ...options })), ...blocked }
}

t.test('it listens on this machine only by default', async (t) => {
  const { served, raw } = await open(t)
  t.equal(served.url, `http://127.0.0.1:${served.port}`)
  t.equal((await fetch(`${served.url}/livez`)).status, 200)
  raw.socket.destroy()
})

t.test('a port in use is refused', async (t) => {
  const { served, ingest } = await open(t)
  await t.rejects(serve({ ingest, port: served.port }), { code: 'EADDRINUSE' })
})

t.test('it installs no signal handlers', async (t) => {
  const count = () => ['SIGTERM', 'SIGINT', 'SIGHUP'].map((signal) => process.listenerCount(signal))
  const before = count()
  await open(t)
  t.strictSame(count(), before)
})

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, a connection carries many requests, sequential and pipelined`, async (t) => {
    const { raw, headers, storedCount } = await open(t, secure)
    const send = (i: number) => raw.write(requestBytes({ headers, body: batchOf(1, `${i}-`) }))
    for (let i = 0; i < 3; i++) {
      send(i)
      t.match(await raw.read(), { status: 202, headers: { connection: 'keep-alive' } })
    }
    for (let i = 3; i < 10; i++) send(i)
    for (let i = 3; i < 10; i++) t.equal((await raw.read()).status, 202)
    t.equal(await storedCount(), 10)
  })
}

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, a client that half-closes its connection after its request gets the response`, async (t) => {
    const { raw, headers, release, isHandled, storedCount, openConnection } = await openBlocked(t, secure)
    raw.socket.end(requestBytes({ headers, body: batchOf(1) }))
    await isHandled
    // when a later connection has its response, the server has seen the end of this one
    const later = await openConnection()
    for (let i = 0; i < 3; i++) {
      later.write(requestBytes({ method: 'GET', path: '/livez' }))
      t.equal((await later.read()).status, 200)
    }
    release()
    t.equal((await raw.read()).status, 202)
    t.equal(await raw.ended, 'end')
    t.equal(await storedCount(), 1)
  })
}

t.test('what is no request is counted and logged like any other', async (t) => {
  const { ingest } = await openTestIngest()
  const metrics = createMetrics(ingest)
  const lines: object[] = []
  const ignore = () => {}
  const log: Log = { debug: (line: object) => void lines.push(line), info: ignore, warn: ignore, error: ignore }
  const { raw, openConnection } = await open(t, { ingest, metrics, log })
  raw.write('hello\r\n\r\n')
  t.equal((await raw.read()).status, 400)
  const second = await openConnection()
  second.write(`GET /livez HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`)
  t.equal((await second.read()).status, 431)
  const third = await openConnection()
  third.write('GET /livez HTTP/1.1\r\n\r\n')
  t.equal((await third.read()).status, 400)
  const text = await metrics.render()
  t.match(text, 'ingest_http_problems_total{code="malformed-request"} 2')
  t.match(text, 'ingest_http_problems_total{code="headers-too-large"} 1')
  t.match(text, 'ingest_http_requests_in_flight 0')
  t.match(lines, [
    { status: 400, code: 'malformed-request', method: 'unknown', clientAddress: '127.0.0.1' },
    { status: 431, code: 'headers-too-large' },
    { status: 400, code: 'malformed-request', method: 'GET' },
  ])
})

const chunkedHead = 'POST /v1/events/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n'
const malformed: [string, string | Buffer, number, string][] = [
  ['no HTTP', 'hello\r\n\r\n', 400, 'malformed-request'],
  ['TLS', Buffer.from('16030100c8010000c40303', 'hex'), 400, 'malformed-request'],
  ['an unknown method', 'FOO /livez HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'malformed-request'],
  ['a space before a colon', 'GET /livez HTTP/1.1\r\nHost : a\r\n\r\n', 400, 'malformed-request'],
  [
    'two lengths',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
    400,
    'malformed-request',
  ],
  ['a length and chunks', `${chunkedHead}Content-Length: 5\r\n\r\n0\r\n\r\n`, 400, 'malformed-request'],
  ['a negative length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n', 400, 'malformed-request'],
  ['a list of lengths', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello', 400, 'malformed-request'],
  ['too many headers', `GET /livez HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`, 431, 'headers-too-large'],
  ['a long path', `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 431, 'headers-too-large'],
  ['a request for a proxy', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', 400, 'malformed-request'],
]

for (const [scheme, secure] of schemes) {
  for (const [name, bytes, status, code] of malformed)
    t.test(`by ${scheme}, ${name}: a problem document, and the end of the connection`, async (t) => {
      const { raw, openConnection } = await open(t, secure)
      raw.write(bytes)
      const response = await raw.read()
      t.equal(response.status, status)
      t.match(JSON.parse(response.body), { code, status })
      t.match(response.headers, {
        connection: 'close',
        'content-type': 'application/problem+json',
        'x-request-id': /-/,
      })
      t.equal(await raw.ended, 'end')
      const other = await openConnection()
      other.write(requestBytes({ method: 'GET', path: '/livez' }))
      t.equal((await other.read()).status, 200, 'other connections are not affected')
    })
}

t.test('a client that is still sending too large headers gets a 431', async (t) => {
  const { raw } = await open(t)
  raw.socket.pause()
  raw.write(`GET /livez HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(100_000)}`)
  for (let i = 0; i < 50; i++) await new Promise((resolve) => raw.socket.write('a'.repeat(20_000), resolve))
  raw.socket.resume()
  t.equal((await raw.read()).status, 431)
  t.equal(await raw.ended, 'end')
})

t.test('a malformed chunk in a body gets one response, and nothing is stored', async (t) => {
  const { raw, headers, storedCount } = await open(t)
  const body = batchOf(1)
  const framed = `${body.length.toString(16)}\r\n${body}\r\nzz\r\n`
  raw.write(requestBytes({ headers: [...headers, ['Transfer-Encoding', 'chunked']], body: framed }))
  t.match(JSON.parse((await raw.read()).body), { code: 'malformed-request', status: 400 })
  await raw.ended
  await t.rejects(raw.read(), /ended after ""/)
  t.equal(await storedCount(), 0)
})

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, garbage after a valid request does not affect its response`, async (t) => {
    const { raw, headers, release, isHandled, storedCount } = await openBlocked(t, secure)
    raw.write(Buffer.concat([requestBytes({ headers, body: batchOf(1) }), Buffer.from('garbage\r\n\r\n')]))
    await isHandled
    raw.write('more garbage\r\n\r\n')
    release()
    t.equal((await raw.read()).status, 202)
    t.equal((await raw.read()).status, 400)
    t.equal(await raw.ended, 'end')
    t.equal(await storedCount(), 1)
  })
}

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, a request that stalls gets a 408`, async (t) => {
    const refuse = async (part: string | undefined) => {
      const { raw, headers, storedCount } = await open(t, { ...secure, requestTimeoutMs: 100 })
      raw.write(part ?? requestBytes({ headers, body: batchOf(1) }).subarray(0, -1))
      const response = await raw.read()
      t.equal(response.status, 408)
      t.match(JSON.parse(response.body), { code: 'request-timeout', retryable: true })
      t.equal(response.headers.connection, 'close')
      t.equal(await storedCount(), 0)
    }
    await Promise.all([refuse('GET /livez HTTP/1.1\r\nHost:'), refuse(undefined)])
  })
}

t.test('a request that is refused before its end releases its slot', async (t) => {
  const cases = [
    ['late', { requestTimeoutMs: 100 }, ''],
    ['malformed', {}, 'no size\r\n'],
  ] as const
  const check = async ([name, end, rest]: (typeof cases)[number]) => {
    const { served, openConnection, headers } = await open(t, end)
    const sent = { headers: [...headers, ['Transfer-Encoding', 'chunked'] as [string, string]] }
    const raws = await Promise.all(Array.from({ length: concurrencyLimits.batches.projectMax }, openConnection))
    for (const { write } of raws) write(requestBytes(sent))
    for (const { write } of raws) write(rest)
    for (const { read } of raws) t.equal((await read()).status, rest ? 400 : 408)
    await Promise.all(raws.map(({ ended }) => ended))
    for (const { socket } of raws) socket.destroy()
    const others = { method: 'POST', headers: Object.fromEntries(headers), body: batchOf(1) }
    let status = 0
    // the server sees the end of the last connection later than the client does
    for (let i = 0; i < 100 && status !== 202; i++) {
      status = (await fetch(`${served.url}/v1/events/batch`, others)).status
    }
    t.equal(status, 202, name)
  }
  await Promise.all(cases.map(check))
})

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, while it drains, requests in flight are completed and new ones get a 503`, async (t) => {
    const { served, raw, headers, release, isHandled, openConnection, storedCount, ingest } = await openBlocked(t, {
      ...secure,
      ...patient,
    })
    const idle = await openConnection()
    idle.write(requestBytes({ method: 'GET', path: '/readyz' }))
    t.equal((await idle.read()).status, 200)
    raw.write(requestBytes({ headers, body: batchOf(1, 'early') }))
    await isHandled

    const closed = served.close()
    t.equal(served.close(), closed, 'the second close returns the same promise')
    for (const late of [idle, await openConnection()]) {
      late.write(requestBytes({ headers, body: batchOf(1, 'late') }))
      const response = await late.read()
      t.equal(response.status, 503)
      t.match(response.headers, { connection: 'close', 'retry-after': /^[1-9]\d*$/ })
      t.match(JSON.parse(response.body), { code: 'draining', retryable: true })
      t.equal(await late.ended, 'end')
    }
    // this timer ends after that of the server, which started earlier
    await new Promise((resolve) => setTimeout(resolve, lingerMs))
    const probe = await openConnection()
    probe.write(requestBytes({ method: 'GET', path: '/readyz' }))
    t.equal((await probe.read()).status, 503)

    release()
    t.match(await raw.read(), { status: 202, headers: { connection: 'close' } })
    await closed
    t.equal(await storedCount(), 1)
    await t.rejects(openConnection(), { code: 'ECONNREFUSED' })
    t.equal(
      (await ingest.project(projectId).submitBatch(Buffer.from(batchOf(1, 'later')))).accepted,
      1,
      'the Ingest stays open',
    )
  })
}

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, connections without a request do not delay closing`, async (t) => {
    const { served, raw } = await open(t, { ...secure, ...patient })
    await served.close()
    await raw.ended
  })
}

t.test('it listens for lingerMs after the last request, then closes idle connections', async (t) => {
  const { served, raw, openConnection, headers } = await open(t, patient)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  const closed = served.close()
  const late = await openConnection()
  late.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await late.read()).status, 503)
  await closed
  await raw.ended
})

for (const [scheme, secure] of schemes) {
  t.test(`by ${scheme}, stuck connections are closed after closeTimeoutMs`, async (t) => {
    const { served, raw, headers, openConnection, storedCount } = await open(t, { ...secure, closeTimeoutMs: 600 })
    const bytes = requestBytes({ headers: [...headers, ['Expect', '100-continue']], body: batchOf(1) })
    raw.write(bytes.subarray(0, -1))
    t.equal((await raw.read()).status, 100)
    const silent = await openConnection()
    const unready = await openRaw(served.port)
    await served.close()
    await Promise.all([raw.ended, silent.ended, unready.ended])
    await t.rejects(raw.read(), /ended after ""/)
    t.equal(await storedCount(), 0)
  })
}

t.test('stuck connections are closed after closeTimeoutMs, even if that is less than lingerMs', async (t) => {
  const { served, raw } = await open(t)
  raw.write('POST /v1')
  await served.close()
  await raw.ended
})

t.test('a reset connection does not delay closing', async (t) => {
  const { served, raw, headers, isHandled } = await openBlocked(t, patient)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  await isHandled
  raw.socket.resetAndDestroy()
  await served.close()
  await new Promise((resolve) => connect(served.port, '127.0.0.1').once('error', resolve))
})
