import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { concurrencyLimits } from '../src/limits/concurrency.ts'
import { lingerMs, type ServeOptions, serve } from '../src/serve.ts'
import { batchOf, openTestIngest, projectId } from './batches.ts'
import { requestBytes } from './edges.ts'
import { openRaw } from './raw-connection.ts'

/** For what must end by itself: longer than the test may take. Without it these tests stop at once. */
const patient = { closeTimeoutMs: 600_000 }

async function open(t: Test, options: Partial<ServeOptions> = {}) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1, ...options })
  t.teardown(() => served.close())
  const openConnection = async () => {
    const raw = await openRaw(served.port)
    t.teardown(() => raw.socket.destroy())
    return raw
  }
  return { ...opened, served, openConnection, raw: await openConnection() }
}

/** An Ingest whose requests wait until they are let go. */
async function openGated(t: Test, options: Partial<ServeOptions> = {}) {
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  let arrive = () => {}
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const { ingest, headers, storedCount } = await openTestIngest({
    authenticate: async () => {
      arrive()
      await gate
      return true
    },
  })
  const opened = await open(t, { ingest, ...options })
  t.teardown(release)
  return { ...opened, headers, storedCount, release, arrived }
}

t.test('it listens on this machine only, unless it is told otherwise', async (t) => {
  const { served, raw } = await open(t)
  t.equal(served.url, `http://127.0.0.1:${served.port}`)
  t.equal((await fetch(`${served.url}/livez`)).status, 200)
  raw.socket.destroy()
})

t.test('a port that is taken is refused', async (t) => {
  const { served, ingest } = await open(t)
  await t.rejects(serve({ ingest, port: served.port }), { code: 'EADDRINUSE' })
})

t.test('it installs no signal handlers', async (t) => {
  const count = () => ['SIGTERM', 'SIGINT', 'SIGHUP'].map((signal) => process.listenerCount(signal))
  const before = count()
  await open(t)
  t.strictSame(count(), before)
})

t.test('a connection carries many requests, one after the other and all at once', async (t) => {
  const { raw, headers, storedCount } = await open(t)
  const send = (i: number) => raw.write(requestBytes({ headers, body: batchOf(1, `${i}-`) }))
  for (let i = 0; i < 3; i++) {
    send(i)
    t.match(await raw.read(), { status: 202, headers: { connection: 'keep-alive' } })
  }
  for (let i = 3; i < 10; i++) send(i)
  for (let i = 3; i < 10; i++) t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 10)
})

t.test('a client that closed its half after its request gets the answer', async (t) => {
  const { raw, headers, release, arrived, storedCount, openConnection } = await openGated(t)
  raw.socket.end(requestBytes({ headers, body: batchOf(1) }))
  await arrived
  // by the time that a later connection is answered, the server has seen the end of this one
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

const chunkedHead = 'POST /v1/events/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n'
const broken: [string, string | Buffer, number, string][] = [
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

for (const [name, bytes, status, code] of broken) {
  t.test(`${name}: a problem in JSON, and the end of the connection`, async (t) => {
    const { raw, openConnection } = await open(t)
    raw.write(bytes)
    const answer = await raw.read()
    t.equal(answer.status, status)
    t.match(JSON.parse(answer.body), { code, status })
    t.match(answer.headers, { connection: 'close', 'content-type': 'application/problem+json', 'x-request-id': /-/ })
    t.equal(await raw.ended, 'end')
    const other = await openConnection()
    other.write(requestBytes({ method: 'GET', path: '/livez' }))
    t.equal((await other.read()).status, 200, 'others are not disturbed')
  })
}

t.test('headers that are too large are refused to a client that is still sending them', async (t) => {
  const { raw } = await open(t)
  raw.socket.pause()
  raw.write(`GET /livez HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(100_000)}`)
  for (let i = 0; i < 50; i++) await new Promise((resolve) => raw.socket.write('a'.repeat(20_000), resolve))
  raw.socket.resume()
  t.equal((await raw.read()).status, 431)
  t.equal(await raw.ended, 'end')
})

t.test('chunks that are broken in the middle of a body are refused once, and nothing is stored', async (t) => {
  const { raw, headers, storedCount } = await open(t)
  const body = batchOf(1)
  const framed = `${body.length.toString(16)}\r\n${body}\r\nzz\r\n`
  raw.write(requestBytes({ headers: [...headers, ['Transfer-Encoding', 'chunked']], body: framed }))
  t.match(JSON.parse((await raw.read()).body), { code: 'malformed-request', status: 400 })
  await raw.ended
  await t.rejects(raw.read(), /ended after ""/)
  t.equal(await storedCount(), 0)
})

t.test('what follows a good request on a connection does not spoil its answer', async (t) => {
  const { raw, headers, release, arrived, storedCount } = await openGated(t)
  raw.write(Buffer.concat([requestBytes({ headers, body: batchOf(1) }), Buffer.from('garbage\r\n\r\n')]))
  await arrived
  raw.write('more garbage\r\n\r\n')
  release()
  t.equal((await raw.read()).status, 202)
  t.equal((await raw.read()).status, 400)
  t.equal(await raw.ended, 'end')
  t.equal(await storedCount(), 1)
})

t.test('a request that does not get on is ended with a 408', async (t) => {
  for (const part of ['GET /livez HTTP/1.1\r\nHost:', undefined]) {
    const { raw, headers, storedCount } = await open(t, { requestTimeoutMs: 100 })
    raw.write(part ?? requestBytes({ headers, body: batchOf(1) }).subarray(0, -1))
    const answer = await raw.read()
    t.equal(answer.status, 408)
    t.match(JSON.parse(answer.body), { code: 'request-timeout', retryable: true })
    t.equal(answer.headers.connection, 'close')
    t.equal(await storedCount(), 0)
  }
})

t.test('a request that is ended before all of it is here gives its place back', async (t) => {
  for (const [name, end, rest] of [
    ['late', { requestTimeoutMs: 100 }, ''],
    ['broken', {}, 'no size\r\n'],
  ] as const) {
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
    // the server hears of the last of them in its own time
    for (let i = 0; i < 100 && status !== 202; i++) {
      status = (await fetch(`${served.url}/v1/events/batch`, others)).status
    }
    t.equal(status, 202, name)
  }
})

t.test('while it closes, what was in flight is done and what comes new is sent elsewhere', async (t) => {
  const { served, raw, headers, release, arrived, openConnection, storedCount, ingest } = await openGated(t, patient)
  const idle = await openConnection()
  idle.write(requestBytes({ method: 'GET', path: '/readyz' }))
  t.equal((await idle.read()).status, 200)
  raw.write(requestBytes({ headers, body: batchOf(1, 'early') }))
  await arrived

  const closed = served.close()
  t.equal(served.close(), closed, 'closing twice is closing once')
  for (const late of [idle, await openConnection()]) {
    late.write(requestBytes({ headers, body: batchOf(1, 'late') }))
    const answer = await late.read()
    t.equal(answer.status, 503)
    t.match(answer.headers, { connection: 'close', 'retry-after': /^[1-9]\d*$/ })
    t.match(JSON.parse(answer.body), { code: 'draining', retryable: true })
    t.equal(await late.ended, 'end')
  }
  // this timer ends after that of the server, which began before it
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
    'the ingest is open',
  )
})

t.test('it listens for a while after the last request is done, then closes idle connections', async (t) => {
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

t.test('what is stuck is cut off when its time is over', async (t) => {
  const { served, raw, headers, openConnection, storedCount } = await open(t, { closeTimeoutMs: 600 })
  const bytes = requestBytes({ headers: [...headers, ['Expect', '100-continue']], body: batchOf(1) })
  raw.write(bytes.subarray(0, -1))
  t.equal((await raw.read()).status, 100)
  const silent = await openConnection()
  await served.close()
  await Promise.all([raw.ended, silent.ended])
  await t.rejects(raw.read(), /ended after ""/)
  t.equal(await storedCount(), 0)
})

t.test(
  'what is stuck does not hold it up longer, even where the time is over before it would stop listening',
  async (t) => {
    const { served, raw } = await open(t)
    raw.write('POST /v1')
    await served.close()
    await raw.ended
  },
)

t.test('a connection that was reset does not hold it up', async (t) => {
  const { served, raw, headers, arrived } = await openGated(t, patient)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  await arrived
  raw.socket.resetAndDestroy()
  await served.close()
  await new Promise((resolve) => connect(served.port, '127.0.0.1').once('error', resolve))
})
