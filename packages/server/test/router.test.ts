import { gzipSync } from 'node:zlib'
import { batchBytesMax, createIngest, IngestError, openMemoryStore, type Scope, type Store } from '@ingest/core'
import t from 'tap'
import { authenticateRequest } from '../src/authenticate.ts'
import { createWait } from '../src/http/answer-time.ts'
import { parseRawHeaders } from '../src/http/request.ts'
import { concurrencyLimits } from '../src/limits/concurrency.ts'
import { createErrorLog, errorsToConsole, type Log } from '../src/log.ts'
import { createRouter, type HandlerOptions } from '../src/router.ts'
import { edges, type Sent } from './edges.ts'
import { batchOf, batchOfBytes, collectErrors, headersOf, openTestIngest, projectId } from './test-ingest.ts'

// the default log writes provoked errors to the console
t.capture(console, 'error')

const gzip: [string, string] = ['Content-Encoding', 'gzip']
const json: [string, string] = ['Content-Type', 'application/json']
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

interface Case extends Sent {
  name: string
  status: number
  code?: string
  /** Further expected fields of the body. */
  more?: object
  options?: HandlerOptions
  /** How many events are stored. Default: 0. */
  stored?: number
}

/** In `headers` of a case, a placeholder for the three headers of a valid request. */
const good: [string, string] = ['good', '']

function credentials(projectId: string | undefined, key: string | undefined): [string, string][] {
  const pairs: [string, string][] = [json]
  if (projectId !== undefined) pairs.push(['X-Project-Id', projectId])
  if (key !== undefined) pairs.push(['X-Ingestion-Key', key])
  return pairs
}

function bearer(authorization: string): [string, string][] {
  return [['Authorization', authorization]]
}

const unauthorizedDetail = 'X-Project-Id, and X-Ingestion-Key or Authorization: Bearer, must be those of an active key.'
const zeros = { accepted: 0, duplicates: 0, rejected: [] }
const tooLarge = { status: 413, code: 'batch-too-large' }
const draining = { draining: AbortSignal.abort() }

const cases: Case[] = [
  { name: 'a batch is stored', body: batchOf(100), status: 202, more: { ...zeros, accepted: 100 }, stored: 100 },
  { name: 'an empty batch is accepted', body: '{"events":[]}', status: 202, more: zeros },
  {
    name: 'a batch of rejected events is accepted',
    body: '{"events":[1]}',
    status: 202,
    more: { accepted: 0, duplicates: 0, rejected: [{ index: 0, eventId: null, issues: [{ code: 'not_object' }] }] },
  },
  { name: 'the query is ignored', path: '/v1/events/batch?a=/b', body: batchOf(1), status: 202, stored: 1 },
  { name: 'a batch of 262,144 bytes is stored', body: batchOfBytes(batchBytesMax), status: 202, stored: 1 },
  {
    name: 'a batch of 262,145 bytes is too large',
    body: batchOfBytes(batchBytesMax + 1),
    ...tooLarge,
    more: { limit: 262144 },
  },
  {
    name: '101 events are too many',
    body: batchOf(101),
    status: 413,
    code: 'too-many-events',
    more: { limit: 100, actual: 101 },
  },
  { name: 'gzip is inflated', headers: [good, gzip], body: gzipSync(batchOf(3)), status: 202, stored: 3 },
  {
    name: 'x-gzip is gzip, case-insensitive',
    headers: [good, ['Content-Encoding', 'X-GZIP']],
    body: gzipSync(batchOf(3)),
    status: 202,
    stored: 3,
  },
  {
    name: '262,144 bytes inside gzip are stored',
    headers: [good, gzip],
    body: gzipSync(batchOfBytes(batchBytesMax)),
    status: 202,
    stored: 1,
  },
  {
    name: '262,145 bytes inside gzip are too large',
    headers: [good, gzip],
    body: gzipSync(batchOfBytes(batchBytesMax + 1)),
    ...tooLarge,
  },
  { name: 'a gzip bomb is too large', headers: [good, gzip], body: gzipSync(Buffer.alloc(20_000_000)), ...tooLarge },
  { name: 'invalid gzip is malformed', headers: [good, gzip], body: batchOf(1), status: 400, code: 'malformed-body' },
  {
    name: 'truncated gzip is malformed',
    headers: [good, gzip],
    body: gzipSync(batchOf(1)).subarray(0, -9),
    status: 400,
    code: 'malformed-body',
  },
  {
    name: 'the coding identity is accepted',
    headers: [good, ['Content-Encoding', 'identity']],
    body: batchOf(1),
    status: 202,
    stored: 1,
  },
  {
    name: 'an empty coding is accepted',
    headers: [good, ['Content-Encoding', '']],
    body: batchOf(1),
    status: 202,
    stored: 1,
  },
  ...['br', 'deflate', 'zstd', 'gzip;q=1', 'chunked'].map((coding) => ({
    name: `the coding ${coding} is unsupported`,
    headers: [good, ['Content-Encoding', coding]] as [string, string][],
    body: batchOf(1),
    status: 400,
    code: 'unsupported-coding',
  })),
  { name: 'an empty body is malformed', body: '', status: 400, code: 'malformed-body' },
  { name: 'truncated JSON is malformed', body: '{"events":[', status: 400, code: 'malformed-body' },
  {
    name: 'Latin-1 is malformed',
    body: Buffer.from('{"events":["\xe4"]}', 'latin1'),
    status: 400,
    code: 'malformed-body',
  },
  { name: 'an array is an invalid envelope', body: '[]', status: 400, code: 'invalid-envelope' },
  {
    name: 'an envelope without an array of events is invalid',
    body: '{"events":{}}',
    status: 400,
    code: 'invalid-envelope',
  },
  ...['text/plain', 'application/jsonl', 'application/json+x', 'application/problem+json', ''].map((type) => ({
    name: `the media type "${type}" is unsupported`,
    headers: [...credentials(projectId, 'good').filter((pair) => pair !== json), ['Content-Type', type]] as [
      string,
      string,
    ][],
    body: batchOf(1),
    status: 400,
    code: 'unsupported-media-type',
  })),
  {
    name: 'a media type is required',
    headers: credentials(projectId, 'good').filter((pair) => pair !== json),
    body: Buffer.from(batchOf(1)),
    status: 400,
    code: 'unsupported-media-type',
  },
  ...['Application/JSON', 'application/json;charset=utf-8', 'application/json ; a=b'].map((type) => ({
    name: `the media type "${type}" is JSON`,
    headers: [...credentials(projectId, 'good').filter((pair) => pair !== json), ['Content-Type', type]] as [
      string,
      string,
    ][],
    body: batchOf(1),
    status: 202,
    stored: 1,
  })),
  ...(
    [
      ['no project', undefined, 'good'],
      ['no key', projectId, undefined],
      ['an empty project', '', 'good'],
      ['an empty key', projectId, ''],
      ['a malformed key', projectId, 'junk'],
      ['an unknown key', projectId, 'ik_00000000_00000000000000000000000000000000000000'],
      ['an unknown project', 'game-2', 'good'],
      ['an invalid project id', 'game/1', 'good'],
      ['a key of another scope', projectId, 'reading'],
      ['a revoked key', projectId, 'revoked'],
      ['an expired key', projectId, 'expired'],
    ] as const
  ).map(([what, project, key]) => ({
    name: `${what}: unauthorized`,
    headers: credentials(project, key),
    body: batchOf(1),
    status: 401,
    code: 'unauthorized',
    more: { detail: unauthorizedDetail, retryable: false },
  })),
  ...(
    [
      ['Bearer', 'good'],
      ['bearer', ' good'],
    ] as const
  ).map(([scheme, key]) => ({
    name: `a key by ${scheme} is a key`,
    headers: [...bearer(`${scheme} ${key}`), json, ['X-Project-Id', projectId]] as [string, string][],
    body: batchOf(1),
    status: 202,
    stored: 1,
  })),
  {
    name: 'the same key by both headers is a key',
    headers: [good, ...bearer('Bearer good')],
    body: batchOf(1),
    status: 202,
    stored: 1,
  },
  {
    name: 'Basic credentials, for a proxy, are ignored',
    headers: [good, ...bearer('Basic YTpi')],
    body: batchOf(1),
    status: 202,
    stored: 1,
  },
  ...(
    [
      ['another key by Bearer', [...credentials(projectId, 'reading'), ...bearer('Bearer good')]],
      ['no key by Bearer', [good, ...bearer('Bearer')]],
      ['two keys by Bearer', [good, ...bearer('Bearer good good')]],
      ['Bearer twice', [good, ...bearer('Bearer good'), ...bearer('Bearer good')]],
      ['Basic, then Bearer', [good, ...bearer('Basic YTpi'), ...bearer('Bearer good')]],
      ['Bearer of another scope', [...credentials(projectId, undefined), ...bearer('Bearer reading')]],
      ['Bearer without a project', [json, ...bearer('Bearer good')]],
      ['Basic alone', [...credentials(projectId, undefined), ...bearer('Basic good')]],
    ] as [string, [string, string][]][]
  ).map(([what, headers]) => ({
    name: `${what}: unauthorized`,
    headers,
    body: batchOf(1),
    status: 401,
    code: 'unauthorized',
    more: { detail: unauthorizedDetail, retryable: false },
  })),
  ...['X-Project-Id', 'X-Ingestion-Key'].map((name) => ({
    name: `${name} twice: unauthorized`,
    headers: [good, [name, name === 'X-Project-Id' ? projectId : 'good']] as [string, string][],
    body: batchOf(1),
    status: 401,
    code: 'unauthorized',
  })),
  ...(
    [
      ['Content-Type', 'application/json'],
      ['Content-Encoding', 'gzip'],
      ['Host', 'localhost'],
    ] as [string, string][]
  ).map((pair) => ({
    name: `${pair[0]} twice is refused`,
    headers: [good, pair, pair],
    body: batchOf(1),
    status: 400,
    code: 'repeated-header',
  })),
  { name: 'an unknown path is not found', path: '/v1/event', status: 404, code: 'not-found' },
  { name: 'a trailing slash is not found', path: '/v1/events/batch/', status: 404, code: 'not-found' },
  { name: 'a name of the prototype is not found', path: '/__proto__', status: 404, code: 'not-found' },
  {
    name: 'an unknown path is not found, whatever the method',
    method: 'GET',
    path: '/v1',
    status: 404,
    code: 'not-found',
  },
  ...['GET', 'PUT', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH'].map((method) => ({
    name: `a batch cannot be sent by ${method}`,
    method,
    status: 405,
    code: 'method-not-allowed',
  })),
  ...['/livez', '/readyz'].flatMap((path) => [
    { name: `${path} is a 200`, method: 'GET', path, headers: [], status: 200 },
    { name: `${path} has a HEAD`, method: 'HEAD', path, headers: [], status: 200 },
    { name: `${path} has no POST`, method: 'POST', path, status: 405, code: 'method-not-allowed' },
  ]),
  { name: 'while draining, a batch is a 503', body: batchOf(1), options: draining, status: 503, code: 'draining' },
  {
    name: 'while draining, no key is checked',
    headers: [],
    body: batchOf(1),
    options: draining,
    status: 503,
    code: 'draining',
  },
  {
    name: 'while draining, an unknown path is not found',
    path: '/v1',
    options: draining,
    status: 404,
    code: 'not-found',
  },
  { name: 'while draining, /livez is a 200', method: 'GET', path: '/livez', options: draining, status: 200 },
  {
    name: 'while draining, /readyz is a 503',
    method: 'GET',
    path: '/readyz',
    options: draining,
    status: 503,
    code: 'draining',
  },
]

async function openIngestWithKeys() {
  const { ingest, key, storedCount } = await openTestIngest({ now: () => 1000 })
  const reading = await ingest.keys.create(projectId, { scopes: ['read'] })
  const revoked = await ingest.keys.create(projectId)
  await ingest.keys.revoke(projectId, revoked.record.keyId)
  const expired = await ingest.keys.create(projectId, { expiresAt: 999 })
  const keys: Record<string, string> = { good: key, reading: reading.key, revoked: revoked.key, expired: expired.key }
  const resolve = (pairs: Sent['headers'] = [good]) =>
    pairs.flatMap(([name, value]) => {
      if (name === 'good') return headersOf(key)
      if (name === 'Authorization') return [[name, value.replace(/good|reading/g, (word) => keys[word] ?? '')] as const]
      return [[name, keys[value] ?? value] as const]
    })
  return { ingest, storedCount, resolve }
}

for (const { name: edgeName, open } of edges) {
  t.test(`by ${edgeName}`, async (t) => {
    const shared = await openIngestWithKeys()
    const sharedEdge = await open(shared.ingest)
    t.teardown(() => sharedEdge.close())
    for (const { name, status, code, more = {}, options, stored = 0, headers, ...sent } of cases) {
      // serve has its own draining signal
      const isServe = edgeName.startsWith('serve')
      if (isServe && options) continue
      await t.test(name, async (t) => {
        const isFresh = stored > 0 || options !== undefined
        const { ingest, storedCount, resolve } = isFresh ? await openIngestWithKeys() : shared
        const edge = isFresh && !isServe ? await open(ingest, options) : isFresh ? await open(ingest) : sharedEdge
        const response = await edge.send({ ...sent, headers: resolve(headers) })
        t.equal(response.status, status, response.body)
        t.match(response.headers['x-request-id'], uuid)
        t.equal(response.headers['cache-control'], 'no-store')
        t.equal('retry-after' in response.headers, status === 503)
        if (options) t.equal(response.headers.connection, 'close')
        if (sent.method === 'HEAD') {
          t.equal(response.body, '')
          t.match(response.headers['content-length'], /^[1-9]\d*$/)
        } else {
          t.equal(response.headers['content-length'], String(Buffer.byteLength(response.body)))
          const body = JSON.parse(response.body)
          t.match(body, { ...(code === undefined ? {} : { code, status }), ...more })
          if (code !== undefined) t.equal(body.requestId, response.headers['x-request-id'])
          if (status === 202) t.strictSame(Object.keys(body), ['accepted', 'duplicates', 'rejected'])
        }
        t.equal(response.headers['content-type'], code === undefined ? 'application/json' : 'application/problem+json')
        const challenge = status === 401 ? 'Ingestion-Key, Bearer realm="ingest"' : undefined
        t.equal(response.headers['www-authenticate'], challenge)
        if (status === 405) t.equal(response.headers.allow, sent.path ? 'GET, HEAD' : 'POST')
        t.equal(await storedCount(), stored)
        if (isFresh) edge.close()
      })
    }
  })

  t.test(`by ${edgeName}, a key store that fails is a 503, never a 401`, async (t) => {
    const secret = new Error('the password of the database is 1234')
    for (const authenticate of [
      () => Promise.reject(secret),
      () => Promise.reject(new IngestError('unauthorized', '')),
    ]) {
      const { log, errors } = collectErrors()
      const { ingest, headers, storedCount } = await openTestIngest({ authenticate })
      const edge = await open(ingest, { log })
      t.teardown(() => edge.close())
      const response = await edge.send({ headers, body: batchOf(1) })
      t.equal(response.status, 503)
      t.match(response.headers['retry-after'], /^[1-9]\d*$/)
      t.match(JSON.parse(response.body), { code: 'key-store-unavailable', retryable: true })
      t.notMatch(response.body, 'password')
      t.equal(errors.length, 1)
      t.equal(await storedCount(), 0)
    }
  })

  t.test(`by ${edgeName}, a closed store is a 503 for batches and /readyz, not for /livez`, async (t) => {
    const store = openMemoryStore()
    const ingest = createIngest({ store, authenticate: () => true })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await store.close()
    for (const sent of [
      { headers: headersOf('any'), body: batchOf(1) },
      { method: 'GET', path: '/readyz' },
    ]) {
      const response = await edge.send(sent)
      t.equal(response.status, 503)
      t.match(response.headers['retry-after'], /^[1-9]\d*$/)
      t.match(JSON.parse(response.body), { code: 'store-closed', retryable: true })
    }
    t.equal((await edge.send({ method: 'GET', path: '/livez' })).status, 200)
  })

  t.test(`by ${edgeName}, an unexpected error is a 500 that discloses nothing, and is logged`, async (t) => {
    const secret = new Error('secret')
    const store = { ...openMemoryStore(), append: () => Promise.reject(secret), check: () => Promise.reject(secret) }
    const { log, errors } = collectErrors()
    const edge = await open(createIngest({ store, authenticate: () => true }), { log })
    t.teardown(() => edge.close())
    const response = await edge.send({ headers: headersOf('any'), body: batchOf(1) })
    t.equal(response.status, 500)
    const problem = JSON.parse(response.body)
    t.match(problem, { code: 'internal-error', title: 'Internal error', retryable: true })
    t.notMatch(response.body, /secret|stack/)
    t.match(errors, [{ err: secret, requestId: problem.requestId }])
    const ready = await edge.send({ method: 'GET', path: '/readyz' })
    t.equal(ready.status, 503)
    t.notMatch(ready.body, 'secret')
    t.equal(errors.length, 2)
  })
}

t.test('the limits of a server are divided by the live servers of its store', async (t) => {
  let servers = 1
  let registered = 0
  const store: Store = {
    ...openMemoryStore(),
    registerServer() {
      registered++
      return () => servers
    },
  }
  const ingest = createIngest({ store, authenticate: () => true })
  createRouter(ingest)
  t.equal(registered, 0, 'a router without limits is not announced')
  const router = createRouter(ingest, { rateLimits: { requests: { perSecond: 12, burst: 60 }, now: () => 0 } })
  const policies: unknown[] = []
  for (servers = 1; servers <= 3; servers++) {
    const { headers } = await router.respond(request({ body: Buffer.from(batchOf(1)) }))
    policies.push(headers['RateLimit-Policy']?.split(', ')[0])
  }
  t.strictSame(policies, [
    '"requests";q=60;qu="requests";w=5',
    '"requests";q=30;qu="requests";w=5',
    '"requests";q=20;qu="requests";w=5',
  ])
  t.equal(registered, 1)
})

t.test(
  'while the store cannot be reached, requests are a 503 with Retry-After: 1, and few of them are logged',
  async (t) => {
    const unavailable = new IngestError('store-unavailable', 'connect ECONNREFUSED 10.0.0.5:5432')
    const fail = () => Promise.reject(unavailable)
    const { log, errors } = collectErrors()
    const store = { ...openMemoryStore(), append: fail, project: fail, check: fail }
    const open = createRouter(createIngest({ store, authenticate: () => true }), { log })
    const refused = await Promise.all(
      Array.from({ length: 50 }, () => open.respond(request({ body: Buffer.from(batchOf(1)) }))),
    )
    for (const { status, headers, body } of refused) {
      t.equal(status, 503)
      t.equal(headers['Retry-After'], '1')
      t.match(JSON.parse(String(body)), { code: 'store-unavailable', retryable: true, retryAfter: 1 })
      t.notMatch(String(body), '10.0.0.5')
    }
    t.match(errors[0], { err: unavailable })
    t.ok(errors.length < 10, `${errors.length} lines`)
    const ready = await open.respond(request({ method: 'GET', path: '/readyz' }))
    t.match([ready.status, JSON.parse(String(ready.body)).code], [503, 'store-unavailable'])

    const project = () => Promise.reject(new IngestError('store-unavailable', '', { retryAfterSeconds: 1 }))
    const keyed = createRouter(createIngest({ store: { ...store, project } }), { log })
    const { key } = await openTestIngest()
    const headers = parseRawHeaders(headersOf(key).flat())
    const response = await keyed.respond({ ...request({ body: Buffer.from(batchOf(1)) }), headers })
    t.equal(response.status, 503, 'never a 401')
    t.equal(response.headers['Retry-After'], '1')
    t.equal(JSON.parse(String(response.body)).code, 'key-store-unavailable')
  },
)

t.test('/readyz is a 503 while the store does not respond', async (t) => {
  const store = { ...openMemoryStore(), check: () => new Promise<void>(() => {}) }
  const { log } = collectErrors()
  const router = createRouter(createIngest({ store }), { log })
  const { status, headers, body } = await router.respond(request({ method: 'GET', path: '/readyz' }))
  t.strictSame([status, headers['Retry-After'], JSON.parse(String(body)).code], [503, '1', 'store-unavailable'])
})

t.test('errors of the store keep their code', async (t) => {
  for (const [code, status] of [
    ['disk-full', 503],
    ['overloaded', 503],
    ['store-failed', 503],
    ['store-incompatible', 500],
  ] as const) {
    const store = { ...openMemoryStore(), append: () => Promise.reject(new IngestError(code, '')) }
    const router = createRouter(createIngest({ store, authenticate: () => true }))
    const response = await router.respond(request({ body: Buffer.from(batchOf(1)) }))
    t.equal(response.status, status)
    t.equal(JSON.parse(String(response.body)).code, code)
    t.equal('Retry-After' in response.headers, status === 503)
  }
})

t.test('a store that fails, is full or is locked by another process is in the log', async (t) => {
  for (const code of ['disk-full', 'store-failed', 'store-locked', 'store-unavailable'] as const) {
    const error = new IngestError(code, 'Process 7 holds it.')
    const store = { ...openMemoryStore(), append: () => Promise.reject(error) }
    const { log, errors } = collectErrors()
    const router = createRouter(createIngest({ store, authenticate: () => true }), { log })
    await router.respond(request({ body: Buffer.from(batchOf(1)) }))
    t.match(errors, [{ err: error }])
  }
})

t.test('batches in flight are bounded, and release their slots when they succeed or fail', async (t) => {
  const router = createRouter(createIngest({ store: openMemoryStore(), authenticate: ({ key }) => key !== 'wrong' }))
  for (const [body, status] of [
    [batchOf(1), 202],
    ['{}', 400],
    [batchOf(1), 202],
  ] as const) {
    let release = () => {}
    const isReleased = new Promise<void>((resolve) => {
      release = resolve
    })
    let reading = 0
    const readBody = async () => {
      reading++
      await isReleased
      return Buffer.from(body)
    }
    const { projectMax } = concurrencyLimits.batches
    const inFlight = Array.from({ length: projectMax }, () => router.respond({ ...request({}), readBody }))
    while (reading < projectMax) await new Promise(setImmediate)
    const unauthorized = { ...request({}), headers: parseRawHeaders(headersOf('wrong').flat()) }
    t.equal((await router.respond(unauthorized)).status, 401, 'credentials are checked first')
    const refused = await router.respond(request({ body: Buffer.from(batchOf(1)) }))
    t.equal(refused.status, 503)
    t.equal(JSON.parse(String(refused.body)).code, 'overloaded')
    t.match(refused.headers['Retry-After'], /^[1-9]\d*$/)
    t.equal((await router.respond(request({ method: 'GET', path: '/livez' }))).status, 200)
    release()
    for (const response of await Promise.all(inFlight)) if (response.status !== status) t.equal(response.status, status)
  }
})

function request({ method = 'POST', path = '/v1/events/batch', body = Buffer.alloc(0) }) {
  const headers = parseRawHeaders(headersOf('any').flat())
  return { method, path, query: '', headers, readBody: async () => body, onDisconnect: () => () => {} }
}

t.test('a key is valid for its scopes and no others', async (t) => {
  const { ingest } = await openTestIngest()
  const all: Scope[] = ['events:write', 'maps:write', 'read']
  for (const scope of all) {
    const { key } = await ingest.keys.create(projectId, { scopes: [scope] })
    const headers = parseRawHeaders(headersOf(key).flat())
    for (const wanted of all) {
      const project = authenticateRequest(
        { ingest, logError: createErrorLog(collectErrors().log) },
        headers,
        wanted,
        createWait(),
      )
      if (wanted === scope) t.equal(await project, projectId)
      else await t.rejects(project, { code: 'unauthorized' })
    }
  }
})

t.test('a failure of the key store is logged without the key', async (t) => {
  const { log, errors } = collectErrors()
  const { ingest } = await openTestIngest({ authenticate: () => Promise.reject(new Error('gone')) })
  const headers = parseRawHeaders(headersOf('the-key').flat())
  const logError = createErrorLog(log)
  await t.rejects(authenticateRequest({ ingest, logError }, headers, 'read', createWait()), {
    code: 'key-store-unavailable',
  })
  t.match(errors, [{ projectId, err: { message: 'gone' } }])
  t.notMatch(JSON.stringify(errors), 'the-key')
})

t.test('the default log writes errors to the console, and nothing else', async (t) => {
  const written = t.capture(console, 'error')
  const others = [t.capture(console, 'info'), t.capture(console, 'log'), t.capture(console, 'warn')]
  errorsToConsole.info({}, 'listening')
  errorsToConsole.warn({}, 'careful')
  errorsToConsole.error({ requestId: 'id-1' }, 'request failed')
  t.strictSame(
    written().map(({ args }) => args),
    [['ingest: request failed', { requestId: 'id-1' }]],
  )
  for (const each of others) t.strictSame(each(), [])
})

t.test('a log without methods changes no response', async (t) => {
  const { ingest, headers } = await openTestIngest()
  for (const { open } of edges) {
    const edge = await open(ingest, { log: {} as Log })
    t.teardown(() => edge.close())
    t.match(await edge.send({ headers, body: batchOf(1) }), { status: 202 })
    t.match(await edge.send({ headers, body: '{' }), { status: 400 })
  }
})
