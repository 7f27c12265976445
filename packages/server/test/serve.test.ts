import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect as connectTo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls, { type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { concurrencyLimits, shareMaxOf } from '../src/limits/concurrency.ts'
import type { Log } from '../src/log.ts'
import { createMetrics } from '../src/metrics/metrics.ts'
import { lingerMs, type ServeOptions, serve } from '../src/serve.ts'
import { certificateA, certificateB } from './certificates.ts'
import { requestBytes } from './edges.ts'
import { openServed } from './open-server.ts'
import { openRaw } from './raw-connection.ts'
import { batchOf, openBlockedIngest, openTestIngest, projectId } from './test-ingest.ts'

/** Longer than a test may take, so the server must end before it. By default, servers of these tests close at once. */
const patient = { closeTimeoutMs: 600_000 }

/** Runs a test by HTTP and by HTTPS. */
function byEachScheme(name: string, run: (t: Test, secure: Partial<ServeOptions>) => Promise<void>): void {
  t.test(`by HTTP, ${name}`, (t) => run(t, {}))
  t.test(`by HTTPS, ${name}`, (t) => run(t, { tls: certificateA }))
}

async function openBlocked(t: Test, options: Partial<ServeOptions> = {}) {
  const blocked = await openBlockedIngest()
  t.teardown(blocked.release)
  return { ...(await openServed(t, { ingest: blocked.ingest, ...options })), ...blocked }
}

t.test('it listens on this machine only by default', async (t) => {
  const { served } = await openServed(t)
  t.equal(served.url, `http://127.0.0.1:${served.port}`)
  t.equal((await fetch(`${served.url}/livez`)).status, 200)
})

t.test('a port in use is refused', async (t) => {
  const { served, ingest } = await openServed(t)
  await t.rejects(serve({ ingest, port: served.port }), { code: 'EADDRINUSE' })
})

t.test('it installs no signal handlers', async (t) => {
  const count = () => ['SIGTERM', 'SIGINT', 'SIGHUP'].map((signal) => process.listenerCount(signal))
  const before = count()
  await openServed(t)
  t.strictSame(count(), before)
})

byEachScheme('a connection carries many requests, sequential and pipelined', async (t, secure) => {
  const { raw, headers, storedCount } = await openServed(t, secure)
  const send = (i: number) => raw.write(requestBytes({ headers, body: batchOf(1, `${i}-`) }))
  for (let i = 0; i < 3; i++) {
    send(i)
    t.match(await raw.read(), { status: 202, headers: { connection: 'keep-alive' } })
  }
  for (let i = 3; i < 10; i++) send(i)
  for (let i = 3; i < 10; i++) t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 10)
})

byEachScheme('a client that half-closes its connection after its request gets the response', async (t, secure) => {
  const { raw, headers, release, isHandled, storedCount, connect } = await openBlocked(t, secure)
  raw.socket.end(requestBytes({ headers, body: batchOf(1) }))
  await isHandled
  // when a later connection has its response, the server has seen the end of this one
  const later = await connect()
  for (let i = 0; i < 3; i++) {
    later.write(requestBytes({ method: 'GET', path: '/livez' }))
    t.equal((await later.read()).status, 200)
  }
  release()
  t.equal((await raw.read()).status, 202)
  t.equal(await raw.ended, 'end')
  t.equal(await storedCount(), 1)
})

t.test('bytes that are not a request are counted and logged like one', async (t) => {
  const { ingest } = await openTestIngest()
  const metrics = createMetrics(ingest)
  const lines: object[] = []
  const ignore = () => {}
  const log: Log = { debug: (line: object) => void lines.push(line), info: ignore, warn: ignore, error: ignore }
  const { raw, connect } = await openServed(t, { ingest, metrics, log })
  raw.write('hello\r\n\r\n')
  t.equal((await raw.read()).status, 400)
  const second = await connect()
  second.write(`GET /livez HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`)
  t.equal((await second.read()).status, 431)
  const third = await connect()
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

for (const [name, bytes, status, code] of malformed) {
  byEachScheme(`${name}: a problem document, and the end of the connection`, async (t, secure) => {
    const { raw, connect } = await openServed(t, secure)
    raw.write(bytes)
    const response = await raw.read()
    t.match(response, { status, json: { code, status } })
    t.match(response.headers, {
      connection: 'close',
      'content-type': 'application/problem+json',
      'x-request-id': /-/,
    })
    t.equal(await raw.ended, 'end')
    const other = await connect()
    other.write(requestBytes({ method: 'GET', path: '/livez' }))
    t.equal((await other.read()).status, 200, 'other connections are not affected')
  })
}

t.test('a client that is still sending too large headers gets a 431', async (t) => {
  const { raw } = await openServed(t)
  raw.socket.pause()
  raw.write(`GET /livez HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(100_000)}`)
  for (let i = 0; i < 50; i++) await new Promise((resolve) => raw.socket.write('a'.repeat(20_000), resolve))
  raw.socket.resume()
  t.equal((await raw.read()).status, 431)
  t.equal(await raw.ended, 'end')
})

t.test('a malformed chunk in a body gets one response, and nothing is stored', async (t) => {
  const { raw, headers, storedCount } = await openServed(t)
  const body = batchOf(1)
  const framed = `${body.length.toString(16)}\r\n${body}\r\nzz\r\n`
  raw.write(requestBytes({ headers: [...headers, ['Transfer-Encoding', 'chunked']], body: framed }))
  t.match((await raw.read()).json, { code: 'malformed-request', status: 400 })
  await raw.ended
  await t.rejects(raw.read(), /ended after ""/)
  t.equal(await storedCount(), 0)
})

byEachScheme('garbage after a valid request does not affect its response', async (t, secure) => {
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

byEachScheme('a request that stalls or trickles gets a 408', async (t, secure) => {
  const refuse = async (part?: string, upload?: string) => {
    const { raw, headers, storedCount } = await openServed(t, { ...secure, requestTimeoutMs: 100 })
    const length: [string, string] = ['Content-Length', '1000000']
    const sent = upload === undefined ? { headers, body: batchOf(1) } : { headers: [...headers, length], body: '  ' }
    raw.write(part ?? requestBytes({ ...sent, ...(upload && { method: 'PUT', path: upload }) }).subarray(0, -1))
    const trickle = setInterval(() => upload && raw.write(' '), 10)
    const response = await raw.read().finally(() => clearInterval(trickle))
    t.match(response, { status: 408, json: { code: 'request-timeout', retryable: true } })
    t.equal(response.headers.connection, 'close')
    t.equal(await storedCount(), 0)
  }
  const head = 'GET /livez HTTP/1.1\r\nHost:'
  await Promise.all([refuse(head), refuse(), refuse(undefined, '/v1/maps'), refuse(undefined, '/v1/maps/chunks')])
})

t.test('a request that is refused before its end releases its slot', async (t) => {
  const cases = [
    ['late', { requestTimeoutMs: 100 }, ''],
    ['malformed', {}, 'no size\r\n'],
  ] as const
  const check = async ([name, end, rest]: (typeof cases)[number]) => {
    const { served, connect, headers } = await openServed(t, end)
    const sent = { headers: [...headers, ['Transfer-Encoding', 'chunked'] as [string, string]] }
    const raws = await Promise.all(Array.from({ length: shareMaxOf(concurrencyLimits.batches) }, connect))
    for (const { write } of raws) write(requestBytes(sent))
    for (const { write } of raws) write(rest)
    for (const { read } of raws) t.equal((await read()).status, rest ? 400 : 408)
    await Promise.all(raws.map(({ ended }) => ended))
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

byEachScheme('while it drains, requests in flight are completed and new ones get a 503', async (t, secure) => {
  const { served, raw, headers, release, isHandled, connect, storedCount, ingest } = await openBlocked(t, {
    ...secure,
    ...patient,
  })
  const idle = await connect()
  idle.write(requestBytes({ method: 'GET', path: '/readyz' }))
  t.equal((await idle.read()).status, 200)
  raw.write(requestBytes({ headers, body: batchOf(1, 'early') }))
  await isHandled

  const closed = served.close()
  t.equal(served.close(), closed, 'the second close returns the same promise')
  for (const late of [idle, await connect()]) {
    late.write(requestBytes({ headers, body: batchOf(1, 'late') }))
    const response = await late.read()
    t.equal(response.status, 503)
    t.match(response.headers, { connection: 'close', 'retry-after': /^[1-9]\d*$/ })
    t.match(response.json, { code: 'draining', retryable: true })
    t.equal(await late.ended, 'end')
  }
  // this timer ends after that of the server, which started earlier
  await new Promise((resolve) => setTimeout(resolve, lingerMs))
  const probe = await connect()
  probe.write(requestBytes({ method: 'GET', path: '/readyz' }))
  t.equal((await probe.read()).status, 503)

  release()
  t.match(await raw.read(), { status: 202, headers: { connection: 'close' } })
  await closed
  t.equal(await storedCount(), 1)
  await t.rejects(connect(), { code: 'ECONNREFUSED' })
  t.equal(
    (await ingest.project(projectId).submitBatch(Buffer.from(batchOf(1, 'later')))).accepted,
    1,
    'the Ingest stays open',
  )
})

byEachScheme('connections without a request do not delay closing', async (t, secure) => {
  const { served, raw } = await openServed(t, { ...secure, ...patient })
  await served.close()
  await raw.ended
})

t.test('it listens for lingerMs after the last request, then closes idle connections', async (t) => {
  const { served, raw, connect, headers } = await openServed(t, patient)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  const closed = served.close()
  const late = await connect()
  late.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await late.read()).status, 503)
  await closed
  await raw.ended
})

byEachScheme('stuck connections are closed after closeTimeoutMs', async (t, secure) => {
  const { served, raw, headers, connect, storedCount } = await openServed(t, { ...secure, closeTimeoutMs: 600 })
  const bytes = requestBytes({ headers: [...headers, ['Expect', '100-continue']], body: batchOf(1) })
  raw.write(bytes.subarray(0, -1))
  t.equal((await raw.read()).status, 100)
  const silent = await connect()
  const unready = await openRaw(served.port)
  await served.close()
  await Promise.all([raw.ended, silent.ended, unready.ended])
  await t.rejects(raw.read(), /ended after ""/)
  t.equal(await storedCount(), 0)
})

t.test('stuck connections are closed after closeTimeoutMs, even if that is less than lingerMs', async (t) => {
  const { served, raw } = await openServed(t)
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
  await new Promise((resolve) => connectTo(served.port, '127.0.0.1').once('error', resolve))
})

async function openSocketDirectory(t: Test) {
  // a short path: a Unix socket's path has at most 107 bytes
  const directory = mkdtempSync(join(tmpdir(), 'ingest-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const { ingest, headers } = await openTestIngest()
  const open = async (options: Partial<ServeOptions>) => {
    const served = await serve({ ingest, closeTimeoutMs: 1, ...options })
    t.teardown(() => served.close())
    return served
  }
  return { path: join(directory, 'ingest.sock'), open, headers }
}

const unixOnly = { skip: process.platform === 'win32' && 'no modes of files' }

t.test('a server on a Unix socket stores a batch, and removes its file when it closes', unixOnly, async (t) => {
  const { path, open, headers } = await openSocketDirectory(t)
  const served = await open({ socket: path })
  t.equal(served.url, `unix:${path}`)
  t.equal(statSync(path).mode & 0o777, 0o660)
  const raw = await openRaw(path)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.socket.destroy()
  await served.close()
  t.notOk(existsSync(path))
})

t.test('a path that is too long for a socket is refused', unixOnly, async (t) => {
  const { path, open } = await openSocketDirectory(t)
  await t.rejects(open({ socket: path + 'x'.repeat(100) }), { code: 'invalid-argument', message: /at most \d+ bytes/ })
  t.notOk(existsSync(path.slice(0, 107)))
})

t.test('the socket of a live server is refused, and that server stays reachable', unixOnly, async (t) => {
  const { path, open } = await openSocketDirectory(t)
  await open({ socket: path })
  await t.rejects(open({ socket: path }), { code: 'EADDRINUSE' })
  const raw = await openRaw(path)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  raw.socket.destroy()
})

t.test('the socket that a killed process left is replaced', unixOnly, async (t) => {
  const { path, open } = await openSocketDirectory(t)
  const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  t.throws(() => execFileSync(process.execPath, ['-e', script], { stdio: 'ignore' }))
  t.ok(existsSync(path))
  await open({ socket: path })
  const raw = await openRaw(path)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  raw.socket.destroy()
})

t.test('a file that is not a socket is never replaced', unixOnly, async (t) => {
  const { path, open } = await openSocketDirectory(t)
  writeFileSync(path, 'data')
  await t.rejects(open({ socket: path }), { code: 'EADDRINUSE' })
  t.ok(statSync(path).isFile())
})

t.test('a socket with a host or a port is refused', async (t) => {
  const { path, open } = await openSocketDirectory(t)
  for (const options of [
    { socket: path, host: '127.0.0.1' },
    { socket: path, port: 0 },
  ]) {
    await t.rejects(open(options), { code: 'invalid-argument' })
    t.notOk(existsSync(path))
  }
})

async function openTls(t: Test) {
  const warnings: object[] = []
  const log = { debug() {}, info() {}, warn: (fields: object) => void warnings.push(fields), error() {} }
  const { served, connect } = await openServed(t, { log, tls: certificateA })
  const openConnection = async () => {
    const raw = await connect()
    return { ...raw, subject: (raw.socket as TLSSocket).getPeerCertificate().subject.CN }
  }
  return { served, warnings, openConnection }
}

const live = requestBytes({ method: 'GET', path: '/livez' })

t.test('a reloaded certificate is used by new connections, and the others stay open', async (t) => {
  const { served, warnings, openConnection } = await openTls(t)
  t.match(served.url, /^https:\/\/127\.0\.0\.1:\d+$/)
  const first = await openConnection()
  t.equal(first.subject, 'ingest-a.test')
  served.reloadTls(certificateB)
  t.equal((await openConnection()).subject, 'ingest-b.test')
  first.write(live)
  t.equal((await first.read()).status, 200)
  t.strictSame(warnings, [], 'neither certificate expires soon')
})

t.test('a certificate that cannot be used is refused, and the current one stays', async (t) => {
  const { served, openConnection } = await openTls(t)
  const secretLine = String(certificateB.key).split('\n')[2] ?? ''
  for (const [name, material] of Object.entries({
    'the key of another certificate': { cert: certificateA.cert, key: certificateB.key },
    'no certificate': { cert: '', key: certificateA.key },
    'no key': { cert: certificateA.cert, key: '' },
    'a key in place of the certificate': { cert: certificateB.key, key: certificateB.key },
    'a broken chain': { cert: `${certificateB.cert}-----BEGIN CERTIFICATE-----\nAAAA`, key: certificateB.key },
  })) {
    t.throws(() => served.reloadTls(material), { code: 'invalid-argument', message: /TLS certificate and key/ }, name)
    try {
      served.reloadTls(material)
    } catch (error) {
      t.notMatch(String(error), secretLine)
    }
    t.equal((await openConnection()).subject, 'ingest-a.test')
  }
  const { ingest } = await openTestIngest()
  await t.rejects(serve({ ingest, port: 0, tls: { cert: certificateA.cert, key: certificateB.key } }), {
    code: 'invalid-argument',
  })
})

t.test('a server without TLS has no certificate to reload', async (t) => {
  const { served } = await openServed(t)
  t.throws(() => served.reloadTls(certificateA), { code: 'invalid-argument' })
})

t.test('TLS 1.1 is refused, also after a reload', async (t) => {
  const { served } = await openTls(t)
  const negotiate = async (maxVersion: 'TLSv1.1' | 'TLSv1.2') => {
    const client = tls.connect({
      port: served.port,
      host: '127.0.0.1',
      minVersion: 'TLSv1.1',
      maxVersion,
      ciphers: 'DEFAULT@SECLEVEL=0',
      rejectUnauthorized: false,
    })
    t.teardown(() => client.destroy())
    await once(client, 'secureConnect')
    return client.getProtocol()
  }
  // the server sets its own minimum, whatever that of the process
  const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = tls
  t.teardown(() => Object.assign(tls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS }))
  Object.assign(tls, { DEFAULT_MIN_VERSION: 'TLSv1.1', DEFAULT_CIPHERS: 'DEFAULT@SECLEVEL=0' })
  for (const material of [certificateA, certificateB]) {
    served.reloadTls(material)
    await t.rejects(negotiate('TLSv1.1'), /protocol version/)
    t.equal(await negotiate('TLSv1.2'), 'TLSv1.2')
  }
})

t.test('a client that does not speak TLS is disconnected, and others are served', async (t) => {
  const { served, openConnection } = await openTls(t)
  const plain = await openRaw(served.port)
  plain.write(live)
  await plain.ended
  const other = await openConnection()
  other.write(live)
  t.equal((await other.read()).status, 200)
})
