import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { type AddressInfo, connect as connectSocket, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { certificateA, certificateB } from '../../../server/test/certificates.ts'
import { startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage, type RunSettings, serveHere, startRun } from '../run-ingest.ts'
import { createKey, projectId, send } from '../served.ts'

/** A store with a key; opening one costs more than most tests, so tests share it. */
const data = t.testdir()
const key = await createKey(data)

/** Starts `ingest serve` in this process, and reads its first line. */
async function start(t: Test, args: readonly string[], settings: RunSettings = {}) {
  const running = startRun(
    ['serve', '--store', data, ...(args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0']), ...args],
    settings,
  )
  t.teardown(async () => {
    running.signal('SIGTERM')
    await running.exited
  })
  const line = await Promise.race([running.nextLine(), running.exited.then(({ stderr }) => stderr)])
  const nextRecord = async () => JSON.parse(await running.nextError())
  return { ...running, line, nextRecord, port: Number(/:(\d+)$/.exec(line)?.[1]) }
}

/** The subject of the certificate of a server, over a connection of its own. */
async function subjectOf(t: Test, port: number) {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  t.teardown(() => socket.destroy())
  await once(socket, 'secureConnect')
  return socket.getPeerCertificate().subject.CN
}

t.test('one line of the log says what is in force, and --json too', async (t) => {
  const limits = ['--retain', 'demo=30d,*=48h', '--rate-limit', 'requests=5,events=6']
  const { line, nextRecord, ...running } = await start(t, [...limits, '--admin', '127.0.0.1:0', '--json'])
  const printed = JSON.parse(line)
  t.match(printed, { ok: true, url: /^http:/, port: Number, store: data, pid: process.pid })
  t.match(printed, { version: /^\d+\.\d+\.\d+/, admin: /^http:\/\/127\.0\.0\.1:\d+$/, console: null })
  t.match(await nextRecord(), {
    msg: 'listening',
    url: printed.url,
    store: data,
    version: printed.version,
    admin: printed.admin,
    console: null,
    tls: false,
    rateLimit: { requests: { perSecond: 5 }, events: { perSecond: 6 } },
    retain: [
      ['demo', 30 * 86_400_000],
      ['*', 2 * 86_400_000],
    ],
    schemas: null,
    pid: process.pid,
  })
  t.match(await (await fetch(`${printed.url}/console/`)).json(), { code: 'not-found' })
  running.signal('SIGTERM')
  t.match(await running.exited, { code: 0 })
})

t.test('--console serves the page, and says where', async (t) => {
  const running = await start(t, ['--console', '--json'])
  const { url, console } = JSON.parse(running.line)
  t.equal(console, `${url}/console/`)
  t.match(await running.nextRecord(), { msg: 'listening', console })
  const response = await fetch(console)
  t.match(response.headers.get('Content-Security-Policy'), "default-src 'none'")
  t.match(await response.text(), '<!doctype html>')
  running.signal('SIGTERM')
  t.notMatch((await running.exited).stderr, 'in the clear')
})

t.test('a console that other machines reach is a warning, unless it has TLS', async (t) => {
  const path = t.testdir({ 'cert.pem': certificateA.cert as string, 'key.pem': certificateA.key as string })
  const warningsOf = async (...args: string[]) => {
    const running = await start(t, ['--console', '--listen', '0.0.0.0:0', ...args])
    running.signal('SIGTERM')
    const { stdout, stderr } = await running.exited
    t.match(stdout, /^listening on (\S+)\nconsole at \1\/console\/\n$/)
    return stderr
  }
  const warning = /keys typed into it cross the network in the clear/
  t.match(await warningsOf(), warning)
  t.notMatch(await warningsOf('--tls-cert', join(path, 'cert.pem'), '--tls-key', join(path, 'key.pem')), warning)
})

t.test('operators have a port of their own, with a token for keys, until the server has drained', async (t) => {
  const token = 'canary-of-the-admin-token'
  const running = await start(t, ['--admin', '127.0.0.1:0', '--json'], { env: { INGEST_ADMIN_TOKEN: token } })
  const { admin, url } = JSON.parse(running.line)
  t.match(await (await fetch(`${admin}/metrics`)).text(), /^# HELP /m)
  t.equal((await fetch(`${url}/metrics`)).status, 404)
  t.equal((await fetch(`${admin}/readyz`)).status, 200)
  const keys = `${admin}/v1/projects/${projectId}/keys`
  t.equal((await fetch(keys)).status, 401)
  t.equal((await fetch(keys, { headers: { Authorization: `Bearer ${token}` } })).status, 200)
  t.equal((await fetch(keys.replace(admin, url))).status, 404)

  // holds the server open while it drains
  const slow = connectSocket(JSON.parse(running.line).port, '127.0.0.1')
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

t.test('an address of operators that cannot be used ends the command', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const taken = await ingest(['serve', '--store', data, '--listen', '127.0.0.1:0', '--admin', `127.0.0.1:${port}`])
  t.match(taken, { code: 6, stderr: /in use: .* --listen or --admin\n$/, stdout: /^$/ })
  const serve = ['serve', '--store', data, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  await isWrongUsage(t, [...serve, '--admin', '203.0.113.1:0'], /203.0.113.1 is not an address of this machine/)
  await isWrongUsage(t, serve, /token/, { env: { INGEST_ADMIN_TOKEN: 'short' } })
})

t.test('operators may use the port of requests on another address', async (t) => {
  const own = createServer().listen(0, '127.0.0.1')
  await once(own, 'listening')
  const { port } = own.address() as AddressInfo
  own.close()
  // every address that begins with 127 is this machine, on Linux
  if (process.platform !== 'linux') return t.comment('skipped: 127.0.0.2 is an address of Linux alone')
  const { line } = await start(t, ['--listen', `127.0.0.1:${port}`, '--admin', `127.0.0.2:${port}`, '--json'])
  t.match(JSON.parse(line), { url: `http://127.0.0.1:${port}`, admin: `http://127.0.0.2:${port}` })
})

t.test('SIGHUP applies the certificate; what is invalid changes nothing', async (t) => {
  const path = t.testdir()
  const [cert, tlsKey] = [join(path, 'cert.pem'), join(path, 'key.pem')]
  const useCertificate = (material: typeof certificateA) => {
    writeFileSync(cert, material.cert)
    writeFileSync(tlsKey, material.key)
  }
  useCertificate(certificateA)
  const tls = ['--tls-cert', cert, '--tls-key', tlsKey]
  const { port, line, nextRecord, ...running } = await start(t, [...tls, '--log-level', 'error'])
  t.match(line, /^listening on https:/)
  t.equal(await subjectOf(t, port), 'ingest-a.test')

  const reload = () => {
    running.signal('SIGHUP')
    return nextRecord()
  }
  const refused = /^the files of the settings were not reloaded/
  useCertificate(certificateB)
  writeFileSync(tlsKey, certificateA.key)
  t.match(await reload(), { level: 50, msg: refused, err: { message: /TLS/ } })
  rmSync(tlsKey)
  t.match(await reload(), { level: 50, msg: refused, err: { message: /--tls-key cannot be read: ENOENT/ } })
  t.equal(await subjectOf(t, port), 'ingest-a.test')
  running.signal('SIGTERM')
  t.match(await running.exited, { code: 0 })
})

t.test('--schemas checks events by their type, and SIGHUP reloads it', async (t) => {
  const file = join(t.testdir(), 'schemas.json')
  const schemas = (type: string) =>
    writeFileSync(file, JSON.stringify({ kill: { type: 'object', required: ['n'], properties: { n: { type } } } }))
  const serve = ['--store', data, '--schemas', file]
  await isWrongUsage(t, ['serve', ...serve], /The event schemas cannot be read: ENOENT/)
  for (const text of ['{', '[]', '{"kill":1}']) {
    writeFileSync(file, text)
    await isWrongUsage(t, ['serve', ...serve], /The event schemas cannot be read|does not hold event schemas/)
  }
  schemas('strange')
  await isWrongUsage(t, ['serve', ...serve], /The schema for events of type "kill" has the unknown type "strange"/)
  schemas('integer')
  const server = await serveHere(t, serve)
  const outcome = async (eventId: string, n: unknown) =>
    (await send({ ...server, key }, JSON.stringify({ events: [{ projectId, eventId, type: 'kill', n }] }))).body
  t.match(await outcome('s-1', 1), { accepted: 1 })
  t.match(await outcome('s-2', 'x'), { rejected: [{ issues: [{ path: '/n', code: 'invalid_type' }] }] })
  schemas('strange')
  server.signal('SIGHUP')
  await server.nextRecord(({ level }) => level === 50)
  t.match(await outcome('s-2', 'x'), { accepted: 0 }, 'the schemas from before stay in force')
  schemas('string')
  server.signal('SIGHUP')
  await server.nextRecord(({ msg }) => msg === 'reloaded')
  t.match(await outcome('s-2', 'x'), { accepted: 1 })
})

t.test('a process that gets SIGHUP goes on', async (t) => {
  const server = await startServe(t, ['--store', data])
  server.signal('SIGHUP')
  await server.nextRecord(({ msg }) => msg === 'reloaded')
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null })
})

t.test('a certificate without its key, and files that are none, are wrong usage', async (t) => {
  const path = t.testdir({ 'cert.pem': certificateA.cert as string, 'key.pem': certificateB.key as string })
  const [cert, tlsKey] = [join(path, 'cert.pem'), join(path, 'key.pem')]
  const serve = ['serve', '--store', data, '--listen', '127.0.0.1:0', '--tls-cert', cert]
  await isWrongUsage(t, serve, /--tls-cert needs --tls-key/)
  await isWrongUsage(t, [...serve, '--tls-key', join(path, 'none')], /--tls-key cannot be read: ENOENT/)
  await isWrongUsage(t, [...serve, '--tls-key', tlsKey], /The TLS certificate and key cannot be used/)
})

const unixOnly = { skip: process.platform === 'win32' && 'no Unix sockets' }

t.test('it listens on a Unix socket', unixOnly, async (t) => {
  // a short path: that of a Unix socket has at most 107 bytes
  const directory = mkdtempSync(join(tmpdir(), 'ingest-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const socketPath = join(directory, 's')
  const server = await serveHere(t, ['--store', data, '--listen', `unix:${socketPath}`, '--console'])
  t.equal(server.url, `unix:${socketPath}`)
  const [response] = await once(request({ socketPath, path: '/readyz' }).end(), 'response')
  t.equal(response.resume().statusCode, 200)
  t.match(server.log(), [{ msg: 'listening', console: '/console/' }], 'a browser reaches it by a proxy alone')
  const taken = await ingest(['serve', '--store', join(directory, 'data'), '--listen', `unix:${socketPath}`])
  t.match(taken, { code: 6, stderr: /s is in use: stop the other process/ })
  t.notOk(existsSync(join(directory, 'data')), 'no store is created')
})

t.test('SIGHUP applies the certificate of a Unix socket', unixOnly, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'ingest-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const [cert, tlsKey, path] = [join(directory, 'cert.pem'), join(directory, 'key.pem'), join(directory, 's')]
  const writeMaterial = (material: typeof certificateA) => {
    writeFileSync(cert, material.cert)
    writeFileSync(tlsKey, material.key)
  }
  const subject = async () => {
    const socket = connectTls({ path, rejectUnauthorized: false })
    t.teardown(() => socket.destroy())
    await once(socket, 'secureConnect')
    return socket.getPeerCertificate().subject.CN
  }
  writeMaterial(certificateA)
  const server = await serveHere(t, [
    '--store',
    data,
    '--listen',
    `unix:${path}`,
    '--tls-cert',
    cert,
    '--tls-key',
    tlsKey,
  ])
  t.equal(await subject(), 'ingest-a.test')
  writeMaterial(certificateB)
  server.signal('SIGHUP')
  await server.nextRecord(({ msg }) => msg === 'reloaded')
  t.equal(await subject(), 'ingest-b.test')
})

t.test('--cors lets web pages of these origins call the API', async (t) => {
  const { url } = await serveHere(t, ['--store', data, '--cors', 'https://a.example', 'https://b.example'])
  const allowed = async (origin: string) => {
    const { headers } = await fetch(`${url}/v1/stats`, {
      headers: { Origin: origin, 'X-Project-Id': projectId, 'X-Ingestion-Key': key },
    })
    return headers.get('Access-Control-Allow-Origin')
  }
  t.equal(await allowed('https://b.example'), 'https://b.example')
  t.equal(await allowed('https://c.example'), null)
})

t.test('--drain-timeout ends requests that are not done', async (t) => {
  const server = await serveHere(t, ['--store', data, '--drain-timeout', '1s'])
  const socket = connectSocket(server.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  const headers = `Host: a\r\nX-Project-Id: ${projectId}\r\nX-Ingestion-Key: ${key}\r\nContent-Type: application/json`
  socket.write(`POST /v1/events/batch HTTP/1.1\r\n${headers}\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n`)
  await once(socket, 'data')
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0 })
  const timeOf = (message: string) => server.log().find(({ msg }) => msg === message)?.time ?? Number.NaN
  t.ok(timeOf('drained') - timeOf('draining') < 10_000, 'which is the default')
})
