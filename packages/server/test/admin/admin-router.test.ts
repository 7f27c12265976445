import { createServer } from 'node:http'
import { createIngest, type EmbeddedIngest, IngestError, openMemoryStore } from '@ingest/core'
import { type OpenMetricsContentType, type PrometheusContentType, Registry } from 'prom-client'
import t, { type Test } from 'tap'

import { type AdminOptions, createAdminHandler } from '../../src/admin/admin-router.ts'
import { createMetrics } from '../../src/metrics/metrics.ts'
import { openFetch, requestBytes } from '../edges.ts'
import { listen, openServed } from '../open-server.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, collectLines, headersOf, openTestIngest, projectId } from '../test-ingest.ts'

const token = 'an-admin-token-of-some-length'
const keysPath = `/v1/projects/${projectId}/keys`

interface Sent {
  method?: string
  json?: unknown
  body?: string
  headers?: Record<string, string>
}

async function openAdmin(t: Test, { ingest: given, ...options }: AdminOptions & { ingest?: EmbeddedIngest } = {}) {
  const ingest = given ?? (await openTestIngest()).ingest
  const port = await listen(t, createServer(createAdminHandler(ingest, { token, ...options })))
  const url = `http://127.0.0.1:${port}`
  const send = async (path: string, { json, headers = {}, ...rest }: Sent = {}) => {
    const response = await fetch(url + path, {
      ...rest,
      ...(json !== undefined && { body: JSON.stringify(json) }),
      headers: {
        Authorization: `Bearer ${token}`,
        ...(json !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
    })
    const text = await response.text()
    const isJson = /json/.test(response.headers.get('content-type') ?? '')
    return { status: response.status, headers: response.headers, text, body: isJson && text ? JSON.parse(text) : {} }
  }
  return { ingest, port, url, send }
}

t.test('metrics have the format of the registry, and its media type', async (t) => {
  const { ingest } = await openTestIngest()
  const register = new Registry<OpenMetricsContentType | PrometheusContentType>()
  const { send } = await openAdmin(t, { ingest, metrics: createMetrics(ingest, { register: register as Registry }) })
  const first = await send('/metrics')
  t.equal(first.headers.get('content-type'), Registry.PROMETHEUS_CONTENT_TYPE)
  t.notMatch(first.text, '# EOF')
  register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
  const second = await send('/metrics')
  t.equal(second.headers.get('content-type'), Registry.OPENMETRICS_CONTENT_TYPE)
  t.match(second.text, /\n# EOF\n$/)
})

t.test('keys are created, listed, rotated and revoked', async (t) => {
  const { ingest, send } = await openAdmin(t)
  const expiresAt = '2099-01-01T00:00:00.000Z'
  const created = await send('/v1/projects/new/keys', {
    method: 'POST',
    json: { name: 'Live', scopes: ['read'], expiresAt },
  })
  t.equal(created.status, 201)
  const { key, ...record } = created.body
  t.strictSame(Object.keys(record), [
    'projectId',
    'keyId',
    'name',
    'state',
    'scopes',
    'createdAt',
    'expiresAt',
    'revokedAt',
    'lastUsedAt',
  ])
  t.match(record, {
    projectId: 'new',
    name: 'Live',
    state: 'active',
    scopes: ['read'],
    expiresAt,
    revokedAt: null,
    lastUsedAt: null,
  })
  t.ok(await ingest.authenticate({ projectId: 'new', key, scope: 'read' }))
  t.equal(created.headers.get('cache-control'), 'no-store')

  const rotated = await send(`/v1/projects/new/keys/${record.keyId}/rotate`, {
    method: 'POST',
    json: { overlapSeconds: 3600 },
  })
  t.equal(rotated.status, 201)
  t.match(rotated.body, { name: 'Live', scopes: ['read'], expiresAt: null, rotated: { keyId: record.keyId } })
  t.ok(Date.parse(rotated.body.rotated.expiresAt) < Date.parse(expiresAt))
  t.ok(await ingest.authenticate({ projectId: 'new', key: rotated.body.key, scope: 'read' }))

  const revoked = await send(`/v1/projects/new/keys/${record.keyId}`, { method: 'DELETE' })
  t.match(revoked, { status: 200, body: { keyId: record.keyId, state: 'revoked' } })
  const again = await send(`/v1/projects/new/keys/${record.keyId}`, { method: 'DELETE' })
  t.strictSame(again.body, revoked.body, 'a second revocation changes nothing')
  t.equal(await ingest.authenticate({ projectId: 'new', key, scope: 'read' }), false)

  const listed = await send('/v1/projects/new/keys')
  t.match(listed.body, {
    projectId: 'new',
    keys: [{ state: 'revoked' }, { keyId: rotated.body.keyId, state: 'active' }],
  })
  t.notMatch(listed.text, /ik_|hash/)
  const { projects } = (await send('/v1/projects')).body
  t.strictSame(projects, [{ projectId }, { projectId: 'new' }])
})

t.test('without a body, a key has every scope and a rotation overlaps by 48 hours', async (t) => {
  const { send } = await openAdmin(t)
  const created = await send(keysPath, { method: 'POST' })
  t.match(created.body, { scopes: ['events:write', 'maps:write', 'read', 'consume'], expiresAt: null })
  const rotated = await send(`${keysPath}/${created.body.keyId}/rotate`, { method: 'POST' })
  const overlapMs = Date.parse(rotated.body.rotated.expiresAt) - Date.parse(rotated.body.createdAt)
  t.equal(overlapMs, 48 * 3_600_000)
})

const postKey = `POST ${keysPath}`
const rotate = `POST ${keysPath}/abcdefgh/rotate`
const inBytes = (body: string, type: string): Sent => ({ body, headers: { 'Content-Type': type } })

const refused: [request: string, sent: Sent, status: number, code: string][] = [
  ['GET /v1/keys', {}, 404, 'not-found'],
  [`GET ${keysPath}/a/b`, {}, 404, 'not-found'],
  [`PUT ${keysPath}`, {}, 405, 'method-not-allowed'],
  [`GET ${keysPath}/abcdefgh`, {}, 405, 'method-not-allowed'],
  ['POST /metrics', {}, 405, 'method-not-allowed'],
  ['POST /v1/projects/a%20b/keys', {}, 400, 'invalid-argument'],
  ['GET /v1/projects/%40/keys', {}, 400, 'invalid-argument'],
  [`DELETE ${keysPath}/abcdefgh`, {}, 404, 'unknown-key'],
  [rotate, {}, 404, 'unknown-key'],
  [postKey, inBytes('{', 'application/json'), 400, 'malformed-body'],
  [postKey, inBytes('a=b', 'text/plain'), 400, 'unsupported-media-type'],
  ...[
    [],
    null,
    { expires: '2099-01-01T00:00:00Z' },
    { scopes: ['admin'] },
    { scopes: [] },
    { scopes: 'read' },
    { expiresAt: '2099-01-01T00:00:00' },
    { expiresAt: '2020-01-01T00:00:00Z' },
  ].map((json): (typeof refused)[0] => [postKey, { json }, 400, 'invalid-argument']),
  [rotate, { json: { overlapSeconds: -1 } }, 400, 'invalid-argument'],
  [rotate, { json: { overlapSeconds: 1e15 } }, 400, 'invalid-argument'],
  [postKey, { json: { scopes: ['a'.repeat(20_000)] } }, 413, 'body-too-large'],
]

t.test('an invalid request is refused with a problem document, and changes nothing', async (t) => {
  const { ingest, send } = await openAdmin(t)
  const before = await ingest.keys.list(projectId)
  for (const [request, sent, status, code] of refused) {
    const [method = '', path = ''] = request.split(' ')
    const response = await send(path, { method, ...sent })
    const name = `${request} ${JSON.stringify(sent).slice(0, 80)}`
    t.match(response, { status, body: { code, status, requestId: response.headers.get('x-request-id') } }, name)
    t.equal(response.headers.get('content-type'), 'application/problem+json')
    if (status === 405) t.match(response.headers.get('allow'), /^(GET, HEAD(, POST)?|DELETE)$/, name)
  }
  t.strictSame(await ingest.keys.list(projectId), before)
  t.strictSame(await ingest.listProjects(), [projectId])
})

t.test('the API of keys needs the token, whose bytes are never logged', async (t) => {
  const { log, lines } = collectLines()
  const { ingest, send } = await openAdmin(t, { log })
  for (const Authorization of [
    '',
    'Bearer',
    `Basic ${token}`,
    token,
    `Bearer ${token}x`,
    `Bearer ${token.slice(1)}`,
    `Bearer ${token.toUpperCase()}`,
    `Bearer ${token}, Bearer ${token}`,
  ]) {
    for (const [method, path] of [
      ['GET', '/v1/projects'],
      ['POST', keysPath],
    ] as const) {
      const response = await send(path, { method, headers: { Authorization } })
      t.match(response, { status: 401, body: { code: 'unauthorized' } }, Authorization)
      t.equal(response.headers.get('www-authenticate'), 'Bearer realm="ingest-admin"')
    }
  }
  t.equal((await ingest.keys.list(projectId)).length, 1)
  const warnings = lines.filter(([, message]) => message === 'wrong admin token')
  t.match(warnings[0], ['warn', 'wrong admin token', { clientAddress: '127.0.0.1' }])
  t.ok(warnings.length < 5, 'at most one a second')
  t.notMatch(JSON.stringify(lines), token.slice(1, -1))
  t.equal((await send('/v1/projects', { headers: { Authorization: `bearer  ${token}` } })).status, 200)
})

t.test('without a token, the API of keys is off and says how to set one', async (t) => {
  const { ingest } = await openTestIngest()
  const port = await listen(t, createServer(createAdminHandler(ingest)))
  const url = `http://127.0.0.1:${port}`
  const response = await fetch(`${url}/v1/projects`, { headers: { Authorization: 'Bearer undefined' } })
  t.equal(response.status, 404)
  t.match(await response.json(), { code: 'not-found', detail: /INGEST_ADMIN_TOKEN/ })
  t.equal((await fetch(`${url}/livez`)).status, 200)
})

t.test('a token that is short, or that no header can carry, is refused at the start', async (t) => {
  const { ingest } = await openTestIngest()
  for (const wrong of ['', 'short', 'a'.repeat(15), `${'a'.repeat(16)} b`, `${'a'.repeat(16)}\n`, 'ä'.repeat(20)]) {
    t.throws(() => createAdminHandler(ingest, { token: wrong }), { code: 'invalid-argument' }, wrong)
  }
})

t.test('changes of keys are logged, without the keys', async (t) => {
  const { log, lines } = collectLines()
  const { send } = await openAdmin(t, { log })
  const { key, keyId } = (await send(keysPath, { method: 'POST' })).body
  await send(`${keysPath}/${keyId}/rotate`, { method: 'POST' })
  await send(`${keysPath}/${keyId}`, { method: 'DELETE' })
  t.match(
    lines.filter(([, message]) => message.startsWith('key ')),
    [
      ['info', 'key created', { projectId, keyId }],
      ['info', 'key rotated', { projectId, keyId }],
      ['info', 'key revoked', { projectId, keyId }],
    ],
  )
  t.notMatch(JSON.stringify(lines), key.slice(12))
})

t.test('/metrics is text for Prometheus, and needs no token', async (t) => {
  const { url } = await openAdmin(t, {
    metrics: { contentType: Registry.PROMETHEUS_CONTENT_TYPE, render: async () => 'ingest_up 1\n' },
  })
  const response = await fetch(`${url}/metrics`)
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  t.equal(await response.text(), 'ingest_up 1\n')
  const head = await fetch(`${url}/metrics`, { method: 'HEAD' })
  t.match([head.status, await head.text()], [200, ''])
  t.equal((await fetch(`${(await openAdmin(t)).url}/metrics`)).status, 404, 'nothing is measured')
})

t.test('/readyz says why a batch cannot be stored, unlike the public one', async (t) => {
  const reasons: [unknown, number, string, RegExp][] = [
    [
      new IngestError('disk-full', '/data/games has 0 bytes left'),
      503,
      'disk-full',
      /^\/data\/games has 0 bytes left$/,
    ],
    [new IngestError('store-damaged', '/data/games: run 3 is damaged'), 503, 'store-failed', /run 3 is damaged/],
    [new Error('EIO: i/o error, fdatasync'), 503, 'store-failed', /EIO: i\/o error/],
  ]
  for (const [error, status, code, detail] of reasons) {
    const ingest = createIngest({ store: { ...openMemoryStore(), check: () => Promise.reject(error) } })
    const { log } = collectLines()
    const { send } = await openAdmin(t, { ingest, log })
    t.match(await send('/readyz'), { status, body: { code, detail } })
    const open = await openFetch(t, { log }, ingest)
    const response = await open.send({ method: 'GET', path: '/readyz' })
    t.equal(response.status, status)
    t.notMatch(response.body, /games|run 3|EIO/)
  }
})

t.test('/readyz is a 503 while the server drains, and metrics are served to the end', async (t) => {
  const draining = new AbortController()
  const { send } = await openAdmin(t, {
    draining: draining.signal,
    metrics: { contentType: 'text/plain', render: async () => 'a 1\n' },
  })
  t.equal((await send('/readyz')).status, 200)
  draining.abort()
  t.match(await send('/readyz'), { status: 503, body: { code: 'draining' } })
  t.equal((await send('/livez')).status, 200)
  t.equal((await send('/metrics')).text, 'a 1\n')
  t.equal((await send('/v1/projects')).status, 200)
})

t.test('a web page whose name resolves to the loopback address reads nothing', async (t) => {
  const metrics = { ...createMetrics((await openTestIngest()).ingest), render: async () => 'secret 1\n' }
  const { port: own } = await openAdmin(t, { metrics })
  const { served } = await openServed(t, { metrics, admin: { port: 0, token } })
  for (const port of [own, served.admin?.port as number]) {
    const statusFor = async (host: string, path: string) => {
      const raw = await openRaw(port)
      raw.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`)
      const { status, body } = await raw.read()
      raw.socket.destroy()
      if (status !== 200) t.notMatch(body, 'secret')
      return status
    }
    for (const path of ['/metrics', '/readyz', '/v1/projects']) {
      for (const host of [
        'evil.example',
        `evil.example:${port}`,
        '127.0.0.1.evil.example',
        'localhost.evil.example',
        '',
      ])
        t.equal(await statusFor(host, path), 400, host)
      for (const host of ['localhost', `LOCALHOST:${port}`, `127.0.0.1:${port}`, '127.1.2.3', '[::1]:8788'])
        t.equal(await statusFor(host, path), 200, host)
    }
  }
})

t.test('a page gets no permission to send the token', async (t) => {
  const { send } = await openAdmin(t)
  const headers = {
    Origin: 'https://evil.example',
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'authorization',
  }
  const { status, headers: received } = await send(keysPath, { method: 'OPTIONS', headers })
  t.equal(status, 405)
  t.equal(received.get('access-control-allow-origin'), null)
})

t.test('as a handler in a stack, requests of other paths are passed on', async (t) => {
  const { ingest } = await openTestIngest()
  const handler = createAdminHandler(ingest)
  const port = await listen(
    t,
    createServer((req, res) => handler(req, res, () => void res.writeHead(418).end())),
  )
  const url = `http://127.0.0.1:${port}`
  t.equal((await fetch(`${url}/other`)).status, 418)
  t.equal((await fetch(`${url}/livez`)).status, 200)
})

t.test('closing ends idle connections and is not delayed', async (t) => {
  const { served } = await openServed(t, { admin: { port: 0 } })
  const raw = await openRaw(served.admin?.port as number)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  await served.close()
  await raw.ended
})

t.test('keys are rotated under load without one 401', async (t) => {
  const { ingest, storedCount } = await openTestIngest()
  const { send } = await openAdmin(t, { ingest })
  const { served } = await openServed(t, { ingest })
  const statuses = new Map<number, number>()
  let { key, keyId } = (await send(keysPath, { method: 'POST' })).body
  let isOver = false
  async function sendBatches(sender: number): Promise<void> {
    for (let i = 0; !isOver; i++) {
      const { status } = await fetch(`${served.url}/v1/events/batch`, {
        method: 'POST',
        headers: headersOf(key),
        body: batchOf(1, `${sender}-${i}-`),
      })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  const senders = [1, 2, 3, 4].map(sendBatches)
  for (let i = 0; i < 10; i++) {
    const rotated = (await send(`${keysPath}/${keyId}/rotate`, { method: 'POST', json: { overlapSeconds: 60 } })).body
    // requests with the old key are still in flight
    key = rotated.key
    keyId = rotated.keyId
    const seen = statuses.get(202) ?? 0
    while ((statuses.get(202) ?? 0) < seen + 20) await new Promise((resolve) => setImmediate(resolve))
  }
  isOver = true
  await Promise.all(senders)
  t.strictSame([...statuses.keys()], [202])
  t.equal(await storedCount(), statuses.get(202))
  t.equal((await ingest.keys.list(projectId)).length, 12)
})
