import { gzipSync } from 'node:zlib'
import {
  batchBytesMax,
  createIngest,
  type EmbeddedIngest,
  IngestError,
  openMemoryStore,
  type Store,
  scopes,
} from '@ingest/core'
import t from 'tap'
import { type HttpRequest, parseRawHeaders } from '../src/http/request.ts'
import { concurrencyLimits, shareMaxOf } from '../src/limits/concurrency.ts'
import { errorsToConsole, type Log } from '../src/log.ts'
import { createPublicRouter, type HandlerOptions } from '../src/public-router.ts'
import { byEachEdge, type Sent } from './edges.ts'
import { batchOf, batchOfBytes, collectErrors, headersOf, openTestIngest, projectId } from './test-ingest.ts'

// the default log writes provoked errors to the console
t.capture(console, 'error')

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

/** A placeholder in `headers` of a case, for the three headers of a valid request. */
const good: [string, string] = ['good', '']

function credentials(projectId: string | undefined, key: string | undefined): [string, string][] {
  const pairs: [string, string][] = [json]
  if (projectId !== undefined) pairs.push(['X-Project-Id', projectId])
  if (key !== undefined) pairs.push(['X-Ingestion-Key', key])
  return pairs
}

const stored = (name: string, count: number, sent: Omit<Partial<Case>, 'name'> = {}): Case => {
  return { name, body: batchOf(count), status: 202, stored: count, ...sent }
}
const refused = (name: string, status: number, code: string, sent: Omit<Partial<Case>, 'name'> = {}): Case => {
  const isBatch = sent.method === undefined && sent.path === undefined
  return { name, ...(isBatch && { body: batchOf(1) }), status, code, ...sent }
}
const unauthorized = (what: string, headers: [string, string][]): Case => {
  const detail =
    'X-Project-Id, and X-Ingestion-Key or Authorization: Bearer, must be those of an active key with the scope of the request.'
  return refused(`${what}: unauthorized`, 401, 'unauthorized', { headers, more: { detail, retryable: false } })
}
const withCoding = (coding: string): Pick<Case, 'headers'> => ({ headers: [good, ['Content-Encoding', coding]] })
const withType = (type?: string): Pick<Case, 'headers'> => {
  const headers = credentials(projectId, 'good').filter((pair) => pair !== json)
  return { headers: type === undefined ? headers : [...headers, ['Content-Type', type]] }
}
const bearer = (authorization: string): [string, string] => ['Authorization', authorization]

const zeros = { accepted: 0, duplicates: 0, rejected: [] }
const draining = { options: { draining: AbortSignal.abort() } }
const get = (path: string): Pick<Case, 'method' | 'path'> => ({ method: 'GET', path })
/** A gzip body with a wrong checksum. */
const corrupt = gzipSync(batchOf(1)).map((byte, i, { length }) => (i === length - 6 ? byte ^ 0xff : byte))

const cases: Case[] = [
  stored('a batch is stored', 100, { more: { ...zeros, accepted: 100 } }),
  stored('an empty batch is accepted', 0, { more: zeros }),
  stored('a batch of rejected events is accepted', 0, {
    body: '{"events":[1]}',
    more: { accepted: 0, duplicates: 0, rejected: [{ index: 0, eventId: null, issues: [{ code: 'not_object' }] }] },
  }),
  stored('the query is ignored', 1, { path: '/v1/events/batch?a=/b' }),
  stored('a batch of 262,144 bytes is stored', 1, { body: batchOfBytes(batchBytesMax) }),
  refused('a batch of 262,145 bytes is too large', 413, 'batch-too-large', {
    body: batchOfBytes(batchBytesMax + 1),
    more: { limit: 262144 },
  }),
  refused('101 events are too many', 413, 'too-many-events', { body: batchOf(101), more: { limit: 100, actual: 101 } }),
  stored('gzip is inflated', 3, { ...withCoding('gzip'), body: gzipSync(batchOf(3)) }),
  stored('x-gzip is gzip, case-insensitive', 3, { ...withCoding('X-GZIP'), body: gzipSync(batchOf(3)) }),
  stored('262,144 bytes inside gzip are stored', 1, {
    ...withCoding('gzip'),
    body: gzipSync(batchOfBytes(batchBytesMax)),
  }),
  ...[batchOfBytes(batchBytesMax + 1), Buffer.alloc(20_000_000)].map((body) =>
    refused(`${body.length} bytes inside gzip are too large`, 413, 'batch-too-large', {
      ...withCoding('gzip'),
      body: gzipSync(body),
    }),
  ),
  ...[batchOf(1), '', corrupt, gzipSync(batchOf(1)).subarray(0, -1), gzipSync(batchOf(1)).subarray(0, -9)].map((body) =>
    refused('invalid or truncated gzip is malformed', 400, 'malformed-body', { ...withCoding('gzip'), body }),
  ),
  ...['identity', ''].map((coding) => stored(`the coding "${coding}" is accepted`, 1, withCoding(coding))),
  ...['br', 'deflate', 'zstd', 'gzip;q=1', 'chunked'].map((coding) =>
    refused(`the coding ${coding} is unsupported`, 400, 'unsupported-coding', withCoding(coding)),
  ),
  ...['', '{"events":[', Buffer.from('{"events":["\xe4"]}', 'latin1')].map((body) =>
    refused('nothing, truncated JSON and Latin-1 are malformed', 400, 'malformed-body', { body }),
  ),
  ...['[]', '{"events":{}}'].map((body) => refused(`${body} is no envelope`, 400, 'invalid-envelope', { body })),
  ...['text/plain', 'application/jsonl', 'application/json+x', 'application/problem+json', ''].map((type) =>
    refused(`the media type "${type}" is unsupported`, 400, 'unsupported-media-type', {
      ...withType(type),
      more: { detail: 'This Content-Type is not supported: send application/json.' },
    }),
  ),
  refused('a media type is required', 400, 'unsupported-media-type', {
    ...withType(),
    body: Buffer.from(batchOf(1)),
    more: { title: /^Missing/, detail: 'Content-Type is missing: send application/json.' },
  }),
  ...['Application/JSON', 'application/json;charset=utf-8', 'application/json ; a=b'].map((type) =>
    stored(`the media type "${type}" is JSON`, 1, withType(type)),
  ),
  unauthorized('no project', credentials(undefined, 'good')),
  unauthorized('no key', credentials(projectId, undefined)),
  unauthorized('an empty project', credentials('', 'good')),
  unauthorized('an empty key', credentials(projectId, '')),
  unauthorized('a malformed key', credentials(projectId, 'junk')),
  unauthorized('an unknown key', credentials(projectId, 'ik_00000000_00000000000000000000000000000000000000')),
  unauthorized('an unknown project', credentials('game-2', 'good')),
  unauthorized('an invalid project id', credentials('game/1', 'good')),
  unauthorized('a key of another scope', credentials(projectId, 'reading')),
  unauthorized('a revoked key', credentials(projectId, 'revoked')),
  unauthorized('an expired key', credentials(projectId, 'expired')),
  unauthorized('another key by Bearer', [...credentials(projectId, 'reading'), bearer('Bearer good')]),
  unauthorized('no key by Bearer', [good, bearer('Bearer')]),
  unauthorized('two keys by Bearer', [good, bearer('Bearer good good')]),
  unauthorized('Bearer twice', [good, bearer('Bearer good'), bearer('Bearer good')]),
  unauthorized('Basic, then Bearer', [good, bearer('Basic YTpi'), bearer('Bearer good')]),
  unauthorized('Bearer of another scope', [...credentials(projectId, undefined), bearer('Bearer reading')]),
  unauthorized('Bearer without a project', [json, bearer('Bearer good')]),
  unauthorized('Basic alone', [...credentials(projectId, undefined), bearer('Basic good')]),
  unauthorized('X-Project-Id twice', [good, ['X-Project-Id', projectId]]),
  unauthorized('X-Ingestion-Key twice', [good, ['X-Ingestion-Key', 'good']]),
  ...['Bearer good', 'bearer  good'].map((authorization) =>
    stored(`${authorization} is a key`, 1, { headers: [...credentials(projectId, undefined), bearer(authorization)] }),
  ),
  stored('the same key by both headers is a key', 1, { headers: [good, bearer('Bearer good')] }),
  stored('Basic credentials, for a proxy, are ignored', 1, { headers: [good, bearer('Basic YTpi')] }),
  ...(
    [
      ['Content-Type', 'application/json'],
      ['Content-Encoding', 'gzip'],
      ['Host', 'localhost'],
    ] as [string, string][]
  ).map((pair) => refused(`${pair[0]} twice is refused`, 400, 'repeated-header', { headers: [good, pair, pair] })),
  // the last is a name of the prototype
  ...['/v1/event', '/v1/events/batch/', '/v1', '/__proto__'].flatMap((path) => [
    refused(`${path} is not found`, 404, 'not-found', { path }),
    refused(`${path} is not found by GET`, 404, 'not-found', get(path)),
  ]),
  ...['GET', 'PUT', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH'].map((method) =>
    refused(`a batch cannot be sent by ${method}`, 405, 'method-not-allowed', { method }),
  ),
  ...['/livez', '/readyz'].flatMap((path): Case[] => [
    { name: `${path} is a 200`, ...get(path), headers: [], status: 200 },
    { name: `${path} has a HEAD`, method: 'HEAD', path, headers: [], status: 200 },
    refused(`${path} has no POST`, 405, 'method-not-allowed', { path }),
  ]),
  refused('while draining, a batch is a 503', 503, 'draining', draining),
  refused('while draining, no key is checked', 503, 'draining', { ...draining, headers: [] }),
  refused('while draining, an unknown path is not found', 404, 'not-found', { ...draining, path: '/v1' }),
  { name: 'while draining, /livez is a 200', ...get('/livez'), ...draining, status: 200 },
  refused('while draining, /readyz is a 503', 503, 'draining', { ...get('/readyz'), ...draining }),
]

/** Keys of a case by their name. */
async function createKeys(ingest: EmbeddedIngest, key: string) {
  const reading = await ingest.keys.create(projectId, { scopes: ['read'] })
  const revoked = await ingest.keys.create(projectId)
  await ingest.keys.revoke(projectId, revoked.record.keyId)
  const expired = await ingest.keys.create(projectId, { expiresAt: 999 })
  const keys: Record<string, string> = { good: key, reading: reading.key, revoked: revoked.key, expired: expired.key }
  return (pairs: Sent['headers'] = [good]) =>
    pairs.flatMap(([name, value]) => {
      if (name === 'good') return headersOf(key)
      if (name === 'Authorization') return [[name, value.replace(/good|reading/g, (word) => keys[word] ?? '')] as const]
      return [[name, keys[value] ?? value] as const]
    })
}

byEachEdge('each case has its status, its problem document and its headers', async (t, open, edge) => {
  const openCase = async (options?: HandlerOptions) => {
    const opened = await open(options, { now: () => 1000 })
    return { ...opened, resolve: await createKeys(opened.ingest, opened.key) }
  }
  const shared = await openCase()
  for (const { name, status, code, more = {}, options, stored = 0, headers, ...sent } of cases) {
    // serve has its own draining signal
    if (edge.startsWith('serve') && options) continue
    const isFresh = stored > 0 || options !== undefined
    const { storedCount, resolve, send } = isFresh ? await openCase(options) : shared
    const response = await send({ ...sent, headers: resolve(headers) })
    t.equal(response.status, status, `${name}: ${response.body}`)
    t.match(response.headers['x-request-id'], uuid, name)
    t.equal(response.headers['cache-control'], 'no-store', name)
    t.equal('retry-after' in response.headers, status === 503, name)
    if (options) t.equal(response.headers.connection, 'close', name)
    if (sent.method === 'HEAD') {
      t.equal(response.body, '', name)
      t.match(response.headers['content-length'], /^[1-9]\d*$/, name)
    } else {
      t.equal(response.headers['content-length'], String(Buffer.byteLength(response.body)), name)
      const body = response.json
      t.match(body, { ...(code === undefined ? {} : { code, status }), ...more }, name)
      if (code !== undefined) t.equal(body.requestId, response.headers['x-request-id'], name)
      if (status === 202) t.strictSame(Object.keys(body), ['accepted', 'duplicates', 'rejected'], name)
    }
    const type = code === undefined ? 'application/json' : 'application/problem+json'
    t.equal(response.headers['content-type'], type, name)
    const challenge = status === 401 ? 'Ingestion-Key, Bearer realm="ingest"' : undefined
    t.equal(response.headers['www-authenticate'], challenge, name)
    if (status === 405) t.equal(response.headers.allow, sent.path ? 'GET, HEAD' : 'POST', name)
    t.equal(await storedCount(), stored, name)
  }
})

byEachEdge('a route takes keys of its scope alone, and a 405 lists the methods of its path', async (t, open) => {
  const { ingest, send } = await open()
  const keys = await Promise.all(scopes.map((scope) => ingest.keys.create(projectId, { scopes: [scope] })))
  for (const [path, allow, wanted] of [
    ['/v1/events/batch', 'POST', { POST: 'events:write' }],
    ['/v1/events', 'GET, HEAD', { GET: 'read' }],
    ['/v1/consumers', 'GET, HEAD', { GET: 'read' }],
    ['/v1/consumers/sink', 'GET, HEAD, PUT, DELETE', { GET: 'read', PUT: 'consume', DELETE: 'consume' }],
    ['/v1/maps', 'GET, HEAD, PUT', { GET: 'read', PUT: 'maps:write' }],
    ['/v1/maps/chunks', 'GET, HEAD, PUT', { GET: 'read', PUT: 'maps:write' }],
    ['/v1/maps/content', 'GET, HEAD', { GET: 'read' }],
    ['/v1/stats', 'GET, HEAD', { GET: 'read' }],
    ['/v1/builds', 'GET, HEAD', { GET: 'read' }],
    ['/v1/activity', 'GET, HEAD', { GET: 'read' }],
    ['/v1/rejected', 'GET, HEAD', { GET: 'read' }],
  ] as const) {
    t.match(await send({ method: 'PATCH', path }), { status: 405, headers: { allow } }, path)
    for (const [method, scope] of Object.entries(wanted)) {
      for (const [i, { key }] of keys.entries()) {
        const { status } = await send({ method, path, headers: headersOf(key), ...(method !== 'GET' && { body: '' }) })
        t.equal(status === 401, scopes[i] !== scope, `${method} ${path} with a key for ${scopes[i]}: ${status}`)
      }
    }
  }
})

byEachEdge('a key store that fails is a 503, never a 401, and is logged without the key', async (t, open) => {
  const secret = new Error('the password of the database is 1234')
  for (const authenticate of [
    () => Promise.reject(secret),
    () => Promise.reject(new IngestError('unauthorized', '')),
  ]) {
    const { log, errors } = collectErrors()
    const { headers, storedCount, send } = await open({ log }, { authenticate })
    const response = await send({ headers, body: batchOf(1) })
    t.equal(response.status, 503)
    t.match(response.headers['retry-after'], /^[1-9]\d*$/)
    t.match(response.json, { code: 'key-store-unavailable', retryable: true })
    t.notMatch(response.body, 'password')
    t.match(errors, [{ projectId }])
    t.notMatch(JSON.stringify(errors), headers[1]?.[1])
    t.equal(errors.length, 1)
    t.equal(await storedCount(), 0)
  }
})

byEachEdge('a closed store is a 503 for batches and /readyz, not for /livez', async (t, open) => {
  const store = openMemoryStore()
  const { headers, send } = await open({}, createIngest({ store, authenticate: () => true }))
  await store.close()
  for (const sent of [
    { headers, body: batchOf(1) },
    { method: 'GET', path: '/readyz' },
  ]) {
    const response = await send(sent)
    t.match(response, { status: 503, headers: { 'retry-after': /^[1-9]\d*$/ } })
    t.match(response.json, { code: 'store-closed', retryable: true })
  }
  t.equal((await send({ method: 'GET', path: '/livez' })).status, 200)
})

byEachEdge('an unexpected error is a 500 that discloses nothing, and is logged', async (t, open) => {
  const secret = new Error('secret')
  const store = { ...openMemoryStore(), append: () => Promise.reject(secret), check: () => Promise.reject(secret) }
  const { log, errors } = collectErrors()
  const { headers, send } = await open({ log }, createIngest({ store, authenticate: () => true }))
  const response = await send({ headers, body: batchOf(1) })
  t.equal(response.status, 500)
  const problem = response.json
  t.match(problem, { code: 'internal-error', title: 'Internal error', retryable: true })
  t.notMatch(response.body, /secret|stack/)
  t.match(errors, [{ err: secret, requestId: problem.requestId }])
  const ready = await send({ method: 'GET', path: '/readyz' })
  t.equal(ready.status, 503)
  t.notMatch(ready.body, 'secret')
  t.equal(errors.length, 2)
})

byEachEdge('a log without methods changes no response', async (t, open) => {
  const { headers, send } = await open({ log: {} as Log })
  t.match(await send({ headers, body: batchOf(1) }), { status: 202 })
  t.match(await send({ headers, body: '{' }), { status: 400 })
})

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
  createPublicRouter(ingest)
  t.equal(registered, 0, 'a router without limits is not announced')
  const router = createPublicRouter(ingest, { rateLimits: { requests: { perSecond: 12, burst: 60 }, now: () => 0 } })
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
    const open = createPublicRouter(createIngest({ store, authenticate: () => true }), { log })
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

    const entry = () => Promise.reject(new IngestError('store-unavailable', '', { retryAfterSeconds: 1 }))
    const keyed = createPublicRouter(createIngest({ store: { ...store, entry } }), { log })
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
  const router = createPublicRouter(createIngest({ store }), { log })
  const { status, headers, body } = await router.respond(request({ method: 'GET', path: '/readyz' }))
  t.strictSame([status, headers['Retry-After'], JSON.parse(String(body)).code], [503, '1', 'store-unavailable'])
})

t.test('errors of the store keep their code, and those that its operator must see are logged', async (t) => {
  for (const [code, status, isLogged] of [
    ['disk-full', 503, true],
    ['overloaded', 503, false],
    ['store-closed', 503, false],
    ['store-failed', 503, true],
    ['store-locked', 503, true],
    ['store-unavailable', 503, true],
    ['store-incompatible', 500, true],
  ] as const) {
    const error = new IngestError(code, 'Process 7 holds it.')
    const store = { ...openMemoryStore(), append: () => Promise.reject(error) }
    const { log, errors } = collectErrors()
    const router = createPublicRouter(createIngest({ store, authenticate: () => true }), { log })
    const response = await router.respond(request({ body: Buffer.from(batchOf(1)) }))
    t.equal(response.status, status)
    t.equal(JSON.parse(String(response.body)).code, code)
    t.equal('Retry-After' in response.headers, status === 503)
    t.match(errors, isLogged ? [{ err: error }] : { length: 0 }, code)
    t.equal(errors.length, isLogged ? 1 : 0, code)
  }
})

t.test('batches in flight are bounded, and release their slots when they succeed or fail', async (t) => {
  const router = createPublicRouter(
    createIngest({ store: openMemoryStore(), authenticate: ({ key }) => key !== 'wrong' }),
  )
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
    const projectMax = shareMaxOf(concurrencyLimits.batches)
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

t.test('the bytes of unfinished uploads are bounded', async (t) => {
  const router = createPublicRouter(createIngest({ store: openMemoryStore(), authenticate: () => true }))
  for (const [bytes, status] of [
    [shareMaxOf(concurrencyLimits.uploadBytes), 400],
    [shareMaxOf(concurrencyLimits.uploadBytes) + 1, 503],
  ] as const) {
    const readBody: HttpRequest['readBody'] = async (_, { receive }) => {
      await receive?.(bytes)
      return Buffer.from('{}')
    }
    const upload = request({ method: 'PUT', path: '/v1/maps/chunks' })
    t.equal((await router.respond({ ...upload, readBody })).status, status)
  }
})

function request({ method = 'POST', path = '/v1/events/batch', body = Buffer.alloc(0) }) {
  const headers = parseRawHeaders(headersOf('any').flat())
  return { method, path, query: '', headers, readBody: async () => body, signal: () => new AbortController().signal }
}

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
