import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { certificateA, certificateB } from '../../server/test/certificates.ts'
import type { Output } from '../src/io.ts'
import { createLog } from '../src/serve/serve-log.ts'
import { noTerminal, startOnTerminal, startServe } from './ingest-process.ts'
import { createIo, ingest, isWrongUsage, type RunSettings, serveHere, startRun } from './run-ingest.ts'
import { batchOf, createKey, exportedIds, idsOf, projectId, type Sender, type Sent, send } from './served.ts'

/** A store with a key; opening one costs more than most tests, so tests share it. */
const data = t.testdir()
const key = await createKey(data)
const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }

/** Runs `ingest serve` on the shared store in this process. */
function open(t: Test, args: readonly string[] = [], settings: RunSettings = {}) {
  return serveHere(t, ['--store', data, ...args], settings)
}

t.test('it prints one line when it accepts requests, and logs JSON lines to stderr', async (t) => {
  const server = await open(t)
  t.equal(server.stdout(), `listening on http://127.0.0.1:${server.port}\n`)
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  const sender = { ...server, key }
  t.match(await send(sender, ['a', 'b', 'a']), {
    status: 202,
    body: { accepted: 2, duplicates: 1, rejected: { length: 0 } },
  })
  const usual = await send(sender, ['b', 'c', ''])
  t.match(usual, { status: 202, body: { accepted: 1, duplicates: 1, rejected: [{ index: 2 }] } })
  t.equal(
    usual.headers.get('RateLimit-Policy'),
    '"requests";q=200;qu="requests";w=2, "events";q=100000;qu="events";w=5, "batch-bytes";q=51200000;qu="content-bytes";w=5',
    'rate limits are on by default',
  )
  t.match(usual.headers.get('RateLimit'), /"requests";r=\d+;t=\d+, "events";r=\d+;t=\d+/)
  t.equal(
    (await publish(sender, [])).headers.get('RateLimit-Policy'),
    '"map-requests";q=1000;qu="requests";w=10, "map-bytes";q=536870912;qu="content-bytes";w=16',
  )
  await t.test('a port in use: exit code 6, no store, and the first server is not disturbed', async (t) => {
    const other = t.testdir()
    t.match(await ingest(['serve', '--store', other, '--listen', `127.0.0.1:${server.port}`, '--json']), {
      code: 6,
      stdout: /^\{"ok":false,"error":\{"code":"address-in-use",.*"retryable":true\}\}\n$/,
      stderr: new RegExp(`^ingest: port ${server.port} on 127\\.0\\.0\\.1 is in use: .*--listen or --admin\n$`),
    })
    t.equal((await fetch(`${server.url}/readyz`)).status, 200)
    t.strictSame(readdirSync(other), [])
  })
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, stdout: /^listening on \S+\n$/ })
  const log = server.log()
  t.ok(log.every(({ level, time, msg }) => level === 'info' && Date.parse(time) > 0 && msg !== ''))
  const messages = log.map(({ msg }) => msg)
  t.strictSame(messages, ['listening', 'signalled', 'draining', 'drained'])
  t.match(log.at(-1), { accepted: 3, duplicates: 2, rejected: 1, conflicts: 0 })
  t.notMatch(JSON.stringify(log), key)
})

t.test('a missing store is created, and one without keys is logged with the command that creates one', async (t) => {
  const data = join(t.testdir(), 'new', 'data')
  const warningsOf = async () => {
    const server = await serveHere(t, ['--store', data])
    server.signal('SIGTERM')
    t.match(await server.exited, { code: 0 })
    return server.log().filter(({ level }) => level !== 'info')
  }
  t.match(await warningsOf(), [{ level: 'warn', msg: `create one: ingest keys create --store ${data} --project <id>` }])
  await createKey(data)
  t.strictSame(await warningsOf(), [])
})

t.test('one line of the log has the settings in force, and so has --json', async (t) => {
  const limits = ['--retain', 'demo=30d,*=48h', '--rate-limit', 'requests=5,events=6']
  const server = await open(t, [...limits, '--admin', '127.0.0.1:0', '--json'])
  const printed = JSON.parse(server.line)
  t.match(printed, { ok: true, url: /^http:/, port: Number, store: data, pid: process.pid })
  t.match(printed, { version: /^\d+\.\d+\.\d+/, admin: /^http:\/\/127\.0\.0\.1:\d+$/, console: null })
  const { url, version, admin } = printed
  t.match(await server.nextRecord(), { msg: 'listening', url, store: data, version, admin, console: null, tls: false })
  t.match(server.log()[0], {
    rateLimit: { requests: { perSecond: 5 }, events: { perSecond: 6 } },
    retain: [
      ['demo', 30 * 86_400_000],
      ['*', 2 * 86_400_000],
    ],
    traces: 'none: no OpenTelemetry SDK is registered',
    schemas: null,
    pid: process.pid,
  })
  t.match(await (await fetch(`${url}/console/`)).json(), { code: 'not-found' })
})

t.test('--console serves the page, says where, and warns of other machines without TLS', async (t) => {
  const path = t.testdir({ 'cert.pem': certificateA.cert as string, 'key.pem': certificateA.key as string })
  const tls = ['--tls-cert', join(path, 'cert.pem'), '--tls-key', join(path, 'key.pem')]
  for (const [args, isWarned] of [
    [[], false],
    [['--listen', '0.0.0.0:0'], true],
    [['--listen', '0.0.0.0:0', ...tls], false],
  ] as const) {
    const server = await open(t, ['--console', ...args])
    t.match(await server.nextRecord(), { msg: 'listening', console: `${server.url}/console/` })
    if (args.length === 0) {
      const response = await fetch(`${server.url}/console/`)
      t.match(response.headers.get('Content-Security-Policy'), "default-src 'none'")
      t.match(await response.text(), '<!doctype html>')
    }
    server.signal('SIGTERM')
    const { stdout, stderr } = await server.exited
    t.match(stdout, /^listening on (\S+)\nconsole at \1\/console\/\n$/)
    t.equal(stderr.includes('keys typed into it cross the network in the clear'), isWarned, args.join(' '))
  }
})

t.test('operators have their own port, with a token for keys, until the server has drained', async (t) => {
  const token = 'canary-of-the-admin-token'
  const running = await open(t, ['--admin', '127.0.0.1:0', '--json'], { env: { INGEST_ADMIN_TOKEN: token } })
  const { admin, url } = JSON.parse(running.line)
  t.match(await (await fetch(`${admin}/metrics`)).text(), /^# HELP /m)
  t.equal((await fetch(`${url}/metrics`)).status, 404)
  t.equal((await fetch(`${admin}/readyz`)).status, 200)
  const keys = `${admin}/v1/projects/${projectId}/keys`
  t.equal((await fetch(keys)).status, 401)
  t.equal((await fetch(keys, { headers: { Authorization: `Bearer ${token}` } })).status, 200)
  t.equal((await fetch(keys.replace(admin, url))).status, 404)

  // holds the server open while it drains
  const slow = connect(running.port, '127.0.0.1')
  t.teardown(() => slow.destroy())
  slow.write(
    `GET /v1/events?wait=20 HTTP/1.1\r\nHost: a\r\nX-Project-Id: ${projectId}\r\nX-Ingestion-Key: ${key}\r\n\r\n`,
  )
  running.signal('SIGTERM')
  t.equal((await fetch(`${admin}/readyz`)).status, 503)
  t.equal((await fetch(`${url}/readyz`)).status, 503)
  const { code, stdout, stderr } = await running.exited
  t.equal(code, 0)
  t.notMatch(stdout + stderr, token)
  await t.rejects(fetch(`${admin}/readyz`), { cause: { code: 'ECONNREFUSED' } })
})

t.test('an unusable address for operators ends the command', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const serve = ['serve', '--store', data, '--listen', '127.0.0.1:0', '--admin']
  const taken = await ingest([...serve, `127.0.0.1:${port}`])
  t.match(taken, { code: 6, stderr: /in use: .* --listen or --admin\n$/, stdout: /^$/ })
  await isWrongUsage(t, [...serve, '203.0.113.1:0'], /203.0.113.1 is not an address of this machine/)
  await isWrongUsage(t, [...serve, '127.0.0.1:0'], /token/, { env: { INGEST_ADMIN_TOKEN: 'short' } })
})

const linuxOnly = { skip: process.platform !== 'linux' && '127.0.0.2 is an address of Linux alone' }
t.test('operators may use the port of requests on another address', linuxOnly, async (t) => {
  const own = createServer().listen(0, '127.0.0.1')
  await once(own, 'listening')
  const { port } = own.address() as AddressInfo
  own.close()
  // every address that begins with 127 belongs to this machine
  const { line } = await open(t, ['--listen', `127.0.0.1:${port}`, '--admin', `127.0.0.2:${port}`, '--json'])
  t.match(JSON.parse(line), { url: `http://127.0.0.1:${port}`, admin: `http://127.0.0.2:${port}` })
})

const noSockets = process.platform === 'win32' && 'no Unix sockets'

for (const kind of ['a port', 'a Unix socket']) {
  t.test(
    `SIGHUP applies the certificate of ${kind}; what is invalid changes nothing`,
    { skip: noSockets },
    async (t) => {
      // a short path: a Unix socket's path has at most 107 bytes
      const directory = mkdtempSync(join(tmpdir(), 'ingest-'))
      t.teardown(() => rmSync(directory, { recursive: true }))
      const [cert, tlsKey, path] = [join(directory, 'cert.pem'), join(directory, 'key.pem'), join(directory, 's')]
      const useCertificate = (material: typeof certificateA) => {
        writeFileSync(cert, material.cert)
        writeFileSync(tlsKey, material.key)
      }
      useCertificate(certificateA)
      const address = kind === 'a port' ? [] : ['--listen', `unix:${path}`]
      const server = await open(t, [...address, '--tls-cert', cert, '--tls-key', tlsKey])
      const subject = async () => {
        const socket = connectTls({
          rejectUnauthorized: false,
          ...(address.length > 0 ? { path } : { port: server.port }),
        })
        t.teardown(() => socket.destroy())
        await once(socket, 'secureConnect')
        return socket.getPeerCertificate().subject.CN
      }
      const reload = () => {
        server.signal('SIGHUP')
        return server.nextRecord(({ level, msg }) => level === 'error' || msg === 'reloaded')
      }
      t.equal(await subject(), 'ingest-a.test')
      const refused = /^the files of the settings were not reloaded/
      useCertificate(certificateB)
      writeFileSync(tlsKey, certificateA.key)
      t.match(await reload(), { level: 'error', msg: refused, err: { message: /TLS/ } })
      rmSync(tlsKey)
      t.match(await reload(), { level: 'error', msg: refused, err: { message: /--tls-key cannot be read: ENOENT/ } })
      t.equal(await subject(), 'ingest-a.test')
      useCertificate(certificateB)
      t.match(await reload(), { level: 'info', msg: 'reloaded', tls: 'on' })
      t.equal(await subject(), 'ingest-b.test')
    },
  )
}

t.test('it listens on a Unix socket', { skip: noSockets }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'ingest-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const socketPath = join(directory, 's')
  const server = await open(t, ['--listen', `unix:${socketPath}`, '--console'])
  t.equal(server.url, `unix:${socketPath}`)
  const [response] = await once(request({ socketPath, path: '/readyz' }).end(), 'response')
  t.equal(response.resume().statusCode, 200)
  t.match(server.log(), [{ msg: 'listening', console: '/console/' }], 'a browser reaches it by a proxy alone')
  const taken = await ingest(['serve', '--store', join(directory, 'data'), '--listen', `unix:${socketPath}`])
  t.match(taken, { code: 6, stderr: /s is in use: stop the other process/ })
  t.notOk(existsSync(join(directory, 'data')), 'no store is created')
})

t.test('files of TLS that cannot be used are wrong usage', async (t) => {
  const path = t.testdir({ 'cert.pem': certificateA.cert as string, 'key.pem': certificateB.key as string })
  const serve = ['serve', '--store', data, '--listen', '127.0.0.1:0', '--tls-cert', join(path, 'cert.pem'), '--tls-key']
  await isWrongUsage(t, [...serve, join(path, 'none')], /--tls-key cannot be read: ENOENT/)
  await isWrongUsage(t, [...serve, join(path, 'key.pem')], /The TLS certificate and key cannot be used/)
})

t.test('--schemas checks events by their type, and SIGHUP reloads it', async (t) => {
  const file = join(t.testdir(), 'schemas.json')
  const write = (type: string) =>
    writeFileSync(file, JSON.stringify({ kill: { type: 'object', required: ['n'], properties: { n: { type } } } }))
  const missing = join(t.testdirName, 'missing')
  const serve = ['serve', '--store', missing, '--schemas', file]
  await isWrongUsage(t, serve, /The event schemas cannot be read: ENOENT/)
  for (const [text, mistake] of [
    ['{', /schemas.json: .*JSON/],
    ['[]', /schemas.json: Expected an object of JSON Schemas by event type/],
    ['{"kill":1}', /schemas.json: The schema for events of type "kill" is not an object/],
    ['{"kill":{"type":"array"}}', /schemas.json: The schema .* "kill": #\/type must allow "object"/],
    ['{"kill":{},"k\\u0069ll":{}}', /schemas.json: The event type "kill" is there twice/],
    ['{"":{}}', /schemas.json: No event has the type "": a type has 1 to 200 bytes/],
    [
      JSON.stringify({ ['é'.repeat(101)]: {} }),
      /schemas.json: No event has the type "é{40}…": a type has 1 to 200 bytes/,
    ],
  ] as const) {
    writeFileSync(file, text)
    await isWrongUsage(t, serve, mistake)
  }
  write('strange')
  await isWrongUsage(
    t,
    serve,
    /schemas.json: The schema for events of type "kill": #\/properties\/n\/type is the unknown type "strange"/,
  )
  t.notOk(existsSync(missing), 'no store is created')
  write('integer')
  const server = await open(t, ['--schemas', file])
  const outcome = async (eventId: string, n: unknown) =>
    (await send({ ...server, key }, JSON.stringify({ events: [{ projectId, eventId, type: 'kill', n }] }))).body
  t.match(await outcome('s-1', 1), { accepted: 1 })
  t.match(await outcome('s-2', 'x'), { rejected: [{ issues: [{ path: '/n', code: 'invalid_type' }] }] })
  write('strange')
  server.signal('SIGHUP')
  const { err } = await server.nextRecord(({ level }) => level === 'error')
  t.equal(String((err as Error).message).split('unknown type').length, 2, 'the mistake is said once')
  t.match(await outcome('s-2', 'x'), { accepted: 0 }, 'the schemas from before stay in force')
  write('string')
  server.signal('SIGHUP')
  await server.nextRecord(({ msg }) => msg === 'reloaded')
  t.match(await outcome('s-2', 'x'), { accepted: 1 })
})

t.test('--cors lets web pages of these origins call the API', async (t) => {
  const { url } = await open(t, ['--cors', 'https://a.example', 'https://b.example'])
  for (const [Origin, allowed] of [
    ['https://b.example', 'https://b.example'],
    ['https://c.example', null],
  ] as const) {
    const response = await fetch(`${url}/v1/stats`, { headers: { ...headers, Origin } })
    t.equal(response.headers.get('Access-Control-Allow-Origin'), allowed)
  }
})

/** Publishes a map. */
function publish({ url }: { url: string }, map: unknown, more: object = { map }): Promise<Response> {
  return fetch(`${url}/v1/maps`, {
    method: 'PUT',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ placeId: '1', buildId: 'b', ...more }),
  })
}

t.test('--rate-limit limits requests, reads and uploads', async (t) => {
  const server = await open(t, ['--rate-limit', 'requests=1,events=100,reads=4k,uploads=10'])
  const responses = await Promise.all(idsOf('burst', 10).map((id) => send({ ...server, key }, [id])))
  const refused = responses.filter(({ status }) => status === 429)
  t.ok(responses.some(({ status }) => status === 202))
  t.match(refused[0]?.body, { code: 'rate-limited', retryable: true })
  t.ok(refused.every(({ headers }) => Number(headers.get('Retry-After')) >= 1))
  const policy = '"requests";q=2;qu="requests";w=2, "events";q=500;qu="events";w=5, "batch-bytes";q=262144;'
  for (const { headers } of responses) t.match(headers.get('RateLimit-Policy'), policy)

  const read = () => fetch(`${server.url}/v1/stats`, { headers })
  const first = await read()
  t.equal(first.status, 200)
  t.equal(
    first.headers.get('RateLimit-Policy'),
    '"read-requests";q=400;qu="requests";w=4, "read-bytes";q=16384;qu="content-bytes";w=4',
  )
  const second = await read()
  t.equal(second.status, 429)
  t.ok(Number(second.headers.get('Retry-After')) >= 1)
  const published = await publish(server, 'x'.repeat(900))
  t.ok(published.ok)
  t.equal(
    published.headers.get('RateLimit-Policy'),
    '"map-requests";q=1000;qu="requests";w=10, "map-bytes";q=160;qu="content-bytes";w=16',
  )
  t.equal((await publish(server, [])).status, 429)
})

t.test('without rate limits, unfinished uploads still have a limit, to which whole maps do not count', async (t) => {
  const server = await open(t, ['--rate-limit', 'off', '--pending-map-limit', '400'])
  const responses = await Promise.all(idsOf('many', 300).map((id) => send({ ...server, key }, [id])))
  for (const { status, headers } of responses) {
    if (status !== 202 || headers.has('RateLimit') || headers.has('RateLimit-Policy')) t.fail(`${status}`)
  }
  t.ok((await publish(server, 'x'.repeat(901))).ok)
  const digest = `sha256:${'0'.repeat(64)}`
  const manifest = { contentType: 'a/b', size: 1, digest, chunks: [{ digest, size: 1 }] }
  const refused = await publish(server, undefined, { placeId: '2', manifest })
  t.equal(refused.status, 413)
  t.match(await refused.json(), { code: 'map-quota-exceeded', limit: 400, actual: 417, retryable: false })
})

t.test('the log is JSON, text on a terminal, in color unless NO_COLOR is set, or what --log-format says', async (t) => {
  const json = /^\{"level":"info","time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","n":1,"msg":"hello"\}\n$/
  const text = /^\[\d\d:\d\d:\d\d\] INFO: hello \{"n":1\}\n$/
  for (const [isTerminal, format, env, pattern] of [
    [false, undefined, {}, json],
    [false, 'pino', {}, /^\{"level":30,"time":\d+,"n":1,"msg":"hello"\}\n$/],
    [false, 'text', {}, text],
    [true, undefined, {}, /^\[\d\d:\d\d:\d\d\] .*␛\[\d+mINFO.*hello.*\{"n":1\}/],
    [true, undefined, { NO_COLOR: '1' }, text],
    [true, 'json', {}, json],
  ] as const) {
    const { io, stderr } = createIo({ isTerminal, env })
    const log = await createLog(io, { level: 'info', format })
    log.info({ n: 1 }, 'hello')
    log.debug('unheard')
    t.match(stderr().replaceAll('\x1b', '␛'), pattern)
  }
})

t.test('the log says once what an error quotes of its cause', async (t) => {
  const { io, stderr } = createIo()
  const log = await createLog(io, { level: 'info' })
  const cause = new Error('connect ECONNREFUSED')
  log.error({ err: new Error(`The database cannot be reached: ${cause.message}.`, { cause }) }, 'request failed')
  const { err } = JSON.parse(stderr())
  t.equal(err.message, 'The database cannot be reached: connect ECONNREFUSED.')
  t.equal(err.cause.message, cause.message)
})

t.test('lines are dropped and counted while the reader of the log has stopped', async (t) => {
  const { io } = createIo()
  const stderr = new PassThrough({ highWaterMark: 1 })
  const log = await createLog({ ...io, stderr: stderr as Output }, { level: 'info' })
  const text = 'x'.repeat(2 ** 20)
  for (let i = 0; i < 20; i++) log.info({ i, text }, 'a line')
  t.ok(stderr.writableLength < 8 * 2 ** 20)
  let read = ''
  stderr.on('data', (chunk) => {
    read += chunk
  })
  await once(stderr, 'drain')
  log.info('later')
  const lines = read.trimEnd().split('\n')
  const records = lines.map((line) => JSON.parse(line))
  const kept = records.filter(({ msg }) => msg === 'a line').length
  t.match(records.slice(kept), [{ msg: 'later' }, { level: 'warn', lines: 20 - kept, msg: /were dropped/ }])
})

t.test('Ctrl-C on a real terminal shuts it down gracefully', { skip: noTerminal }, async (t) => {
  const child = startOnTerminal(['serve', '--store', data, '--listen', '127.0.0.1:0'])
  t.teardown(() => void child.kill('SIGKILL'))
  let text = ''
  let isStopped = false
  child.stdout.on('data', (chunk) => {
    text += chunk
    if (isStopped || !/listening on \S+\s/.test(text)) return
    isStopped = true
    child.stdin.write('\u0003')
  })
  await once(child, 'close')
  t.match(text, /drained.*"accepted":0/)
})

/** Starts a request without its body, and waits until the server has received its headers. */
async function openSlowRequest(t: Test, { port }: { port: number }, body: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  const lines = [
    'POST /v1/events/batch HTTP/1.1',
    'Host: localhost',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Expect: 100-continue',
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  const [chunk] = await once(socket, 'data')
  if (!String(chunk).startsWith('HTTP/1.1 100 ')) throw new Error(String(chunk))
  return socket
}

/** Sends until the server drains. */
async function drainingResponse(sender: Sender, batch: string[]): Promise<Sent> {
  let response = await send(sender, batch)
  for (let i = 0; i < 10_000 && response.status === 202; i++) response = await send(sender, batch)
  return response
}

t.test('while it drains, requests in flight are completed, new ones get 503, and SIGTERM is ignored', async (t) => {
  const server = await open(t, ['--rate-limit', 'off'])
  const body = batchOf(['slow'])
  const slow = await openSlowRequest(t, server, body)
  server.signal('SIGTERM')
  const late = await drainingResponse({ ...server, key }, ['other'])
  t.match(late, { status: 503, body: { code: 'draining', retryable: true } })
  t.match(late.headers.get('Retry-After'), /^[1-9]\d*$/)
  t.equal((await fetch(`${server.url}/readyz`)).status, 503)
  server.signal('SIGTERM')
  slow.write(body)
  t.match(String((await once(slow, 'data'))[0]), /^HTTP\/1\.1 202 .*"accepted":1/s)
  t.match(await server.exited, { code: 0 })
  t.ok((await exportedIds(data)).includes('slow'))
})

t.test('--drain-timeout ends requests that are not done', async (t) => {
  const server = await open(t, ['--drain-timeout', '1s'])
  await openSlowRequest(t, server, batchOf(['late']))
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0 })
  const timeOf = (message: string) => Date.parse(server.log().find(({ msg }) => msg === message)?.time ?? '')
  t.ok(timeOf('drained') - timeOf('draining') < 10_000, 'which is the default')
})

t.test('a second SIGINT ends the process immediately', async (t) => {
  const running = startRun(['serve', '--store', data, '--listen', '127.0.0.1:0'])
  const url = (await running.nextLine()).replace('listening on ', '')
  const slow = await openSlowRequest(t, { port: Number(new URL(url).port) }, batchOf(['stuck']))
  running.signal('SIGINT')
  t.equal((await drainingResponse({ url, key }, ['other'])).status, 503)
  t.strictSame(running.ends, [])
  running.signal('SIGINT')
  t.strictSame(running.ends, [130])
  slow.destroy()
  t.match(await running.exited, { code: 0 })
})

t.test('a process goes on after SIGHUP, and after the reader of its log closes the pipe', async (t) => {
  const server = await startServe(t, ['--store', data])
  server.signal('SIGHUP')
  await server.nextRecord(({ msg }) => msg === 'reloaded')
  server.child.stderr.destroy()
  t.equal((await send({ ...server, key }, ['closed log'])).status, 202)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null })
})

t.test('a deleted data file ends the process', async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const server = await startServe(t, ['--store', data, '--rate-limit', 'off'])
  const sender = { ...server, key }
  t.equal((await send(sender, ['a'])).status, 202)
  rmSync(join(data, 'events', 'data.mdb'))
  // the file is checked once a second
  let response: Sent | undefined
  const deadline = Date.now() + 30_000
  do response = await send(sender, ['b']).catch(() => undefined)
  while (response?.status === 202 && Date.now() < deadline)
  t.ok(response === undefined || response.status === 503)
  t.match(await server.exited, { code: null, signal: 'SIGKILL' })
  const fatal = server.log().find(({ level }) => level === 'fatal')
  t.match(fatal, { code: 'store-failed', msg: /ends immediately/ })
})

/** What senders sent, what was acknowledged, and all responses. */
interface Ledger {
  sent: string[]
  acknowledged: string[]
  responses: Sent[]
}

/** Sends batches concurrently until the server is gone or refuses one, or `onResponse` returns true. */
async function load(sender: Sender, name: string, ledger: Ledger, onResponse: () => unknown): Promise<void> {
  const senders = idsOf(name, 4).map(async (sequence) => {
    for (let i = 0; ; i++) {
      const batch = idsOf(`${sequence}-${i}`, 20)
      ledger.sent.push(...batch)
      const response = await send(sender, batch).catch(() => undefined)
      if (response === undefined) return
      ledger.responses.push(response)
      if (response.status !== 202) return
      ledger.acknowledged.push(...batch)
      if (onResponse() === true) return
    }
  })
  await Promise.all(senders)
}

/** Asserts that acknowledged events are stored, stored events were sent, and none is stored twice. */
async function isComplete(t: Test, data: string, { sent, acknowledged }: Ledger, prefix: string) {
  const stored = (await exportedIds(data)).filter((id) => id.startsWith(prefix))
  const [storedSet, sentSet] = [new Set(stored), new Set(sent)]
  t.equal(storedSet.size, stored.length, 'no event is stored twice')
  const lost = acknowledged.filter((id) => !storedSet.has(id))
  t.strictSame(lost, [], `none of ${acknowledged.length} is lost`)
  const invented = stored.filter((id) => !sentSet.has(id))
  t.strictSame(invented, [], 'no event is invented')
  return storedSet
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`${signal} under load: acknowledged events are stored, later batches get 503`, async (t) => {
    const server = await open(t, ['--rate-limit', 'off'])
    const ledger: Ledger = { sent: [], acknowledged: [], responses: [] }
    await load({ ...server, key }, signal, ledger, () => {
      if (ledger.responses.length === 20) server.signal(signal)
    })
    t.match(await server.exited, { code: 0 })
    for (const { status, headers, body } of ledger.responses) {
      if (status === 202) continue
      t.match({ status, body }, { status: 503, body: { code: 'draining', retryable: true } })
      t.ok(Number(headers.get('Retry-After')) >= 1)
    }
    const stored = await isComplete(t, data, ledger, signal)
    t.equal(server.log().at(-1)?.accepted, stored.size, 'the log has the number of accepted events')
  })
}

const cycles = Number(process.env.INGEST_KILL_CYCLES ?? 8)

t.test(`a server that is killed ${cycles} times beside another one: each event is stored once`, async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const start = () => startServe(t, ['--store', data, '--rate-limit', 'off', '--log-level', 'error'])
  const other = await start()
  const [ledger, otherLedger] = [0, 1].map((): Ledger => ({ sent: [], acknowledged: [], responses: [] })) as [
    Ledger,
    Ledger,
  ]
  for (let cycle = 0; cycle < cycles; cycle++) {
    // the other server commits while this one opens the store
    const enough = otherLedger.responses.length + 20
    const isEnough = () => otherLedger.responses.length >= enough
    const [server] = await Promise.all([start(), load({ ...other, key }, `opening-${cycle}`, otherLedger, isEnough)])
    let isKilled = false
    const wanted = ledger.responses.length + 1 + ((cycle * 7) % 23)
    const killed = load({ ...server, key }, `shared-${cycle}`, ledger, () => {
      // while other batches are in flight
      if (ledger.responses.length === wanted) server.signal('SIGKILL')
    }).finally(() => {
      isKilled = true
    })
    // the same ids through the other server
    await Promise.all([killed, load({ ...other, key }, `shared-${cycle}`, otherLedger, () => isKilled)])
    t.match(await server.exited, { signal: 'SIGKILL', stderr: /^$/ })
  }
  const all = [...ledger.responses, ...otherLedger.responses]
  t.ok(all.every(({ status, body }) => status === 202 && body.rejected?.length === 0))
  t.strictSame(other.log(), [])
  const [sent, acknowledged] = [ledger, otherLedger].reduce<[string[], string[]]>(
    ([sent, acknowledged], each) => [
      [...sent, ...each.sent],
      [...acknowledged, ...each.acknowledged],
    ],
    [[], []],
  )
  const accepted = otherLedger.responses.reduce((sum, { body }) => sum + (body.accepted ?? 0), 0)
  const stored = await isComplete(t, data, { sent, acknowledged, responses: [] }, '')
  t.ok(accepted <= stored.size && acknowledged.length > 0)

  for (let at = 0; at < sent.length; at += 100) {
    const { status, body } = await send({ ...other, key }, sent.slice(at, at + 100))
    t.match({ status, body }, { status: 202, body: { rejected: { length: 0 } } })
  }
  const completed = await isComplete(t, data, { sent, acknowledged: sent, responses: [] }, '')
  t.equal(completed.size, new Set(sent).size, 'sending all events again completes the store')
})
