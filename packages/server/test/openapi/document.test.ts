import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import {
  createIngest,
  type ErrorCode,
  type Ingest,
  IngestError,
  type IngestOptions,
  openMemoryStore,
} from '@ingest/core'
import { Validator } from '@seriousme/openapi-schema-validator'
import t, { type Test } from 'tap'
import Schemas from 'typebox/schema'
import { fillTables } from '../../scripts/http-api-tables.js'
import { unlimited } from '../../src/limits/rate-limiter.ts'
import { createHandler } from '../../src/node-handler.ts'
import { codesOfRoutes } from '../../src/openapi/problems.ts'
import type { HandlerOptions } from '../../src/public-router.ts'
import { byEachEdge, openFetch, requestBytes, type Sent } from '../edges.ts'
import { bytesOf, digestOf, freeze, get, manifestOf, publish, put } from '../map-parts.ts'
import { listen } from '../open-server.ts'
import { openRaw, toRawResponse } from '../raw-connection.ts'
import { batchOf, batchOfBytes, collectErrors, headersOf, projectId, withMethods } from '../test-ingest.ts'
import { faultsOf } from './check-exchange.ts'
import { type DocumentedResponse, fetchDocument, resolveReferences } from './document.ts'

const served = await fetchDocument()
const document = resolveReferences(served)
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, ...operation })),
)

t.test('another validator accepts the document', async (t) => {
  t.match(await new Validator().validate(structuredClone(served) as Record<string, unknown>), { valid: true })
})

t.test('every example is valid', async (t) => {
  for (const { name, responses, requestBody } of operations) {
    for (const content of [...Object.values(responses).map((response) => response.content), requestBody?.content]) {
      for (const [type, media] of Object.entries((content ?? {}) as NonNullable<DocumentedResponse['content']>)) {
        const { schema, example, examples = {} } = media
        const values = [...(example === undefined ? [] : [example]), ...Object.values(examples).map((e) => e.value)]
        if (schema) t.not(values.length + Number(name.endsWith('/openapi.json')), 0, `${name} ${type}`)
        if (!schema) continue
        const check = Schemas.Compile({ ...schema, components: document.components } as never)
        for (const value of values) t.ok(check.Check(value), `${name} ${JSON.stringify(value)}`)
      }
    }
  }
})

t.test('the tables of docs/http-api.md are those of the document', async (t) => {
  const root = execFileSync('git', ['rev-parse', '--show-toplevel'], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  }).trim()
  const page = readFileSync(join(root, 'docs/http-api.md'), 'utf8')
  t.match(page, '<!-- table: codes -->')
  t.equal(fillTables(page, served), page, 'run node packages/server/scripts/http-api-tables.js')
})

t.test('a response that the document does not describe is found', async (t) => {
  const headers = { 'x-request-id': 'r', 'cache-control': 'no-store', 'content-type': 'application/json' }
  const sent = { headers: [['Content-Type', 'application/json']], body: '{"events":[]}' } as const
  const respond = (status: number, value: unknown, more = {}) => {
    const body = JSON.stringify(value)
    return faultsOf(sent, toRawResponse(status, { ...headers, ...more }, Buffer.from(body)))
  }
  const result = { accepted: 0, duplicates: 0, rejected: [] }
  t.strictSame(respond(202, result), [])
  const faulty: [RegExp, string[]][] = [
    [/not documented/, respond(200, result)],
    [/required/, respond(202, { accepted: 0, duplicates: 0 })],
    [/body/, respond(202, { ...result, more: 1 })],
    [/body/, respond(202, { ...result, rejected: [{ index: 0, eventId: null, issues: [], more: 1 }] })],
    [/media type/, respond(202, result, { 'content-type': 'text/plain' })],
    [/header x-more/, respond(202, result, { 'x-more': '1' })],
    [/retry-after/, respond(503, problem('draining'), { 'content-type': 'application/problem+json' })],
    [/body/, respond(400, problem('invalid-cursor'), { 'content-type': 'application/problem+json' })],
  ]
  for (const [expected, faults] of faulty) t.match(faults.join('\n'), expected)
})

function problem(code: ErrorCode): object {
  return (served as { components: { examples: Record<string, { value: object }> } }).components.examples[code]
    ?.value as object
}

byEachEdge('GET /openapi.json is cached by its entity tag', async (t, open) => {
  const { send } = await open()
  const first = await send({ method: 'GET', path: '/openapi.json' })
  t.match(first, { status: 200, headers: { 'content-type': 'application/json', 'cache-control': /^public/ } })
  t.strictSame(first.json, served)
  const tag = first.headers.etag as string
  const again = await send({ method: 'GET', path: '/openapi.json', headers: [['If-None-Match', `W/${tag}`]] })
  t.match(again, { status: 304, body: '', headers: { etag: tag } })
})

const part = bytesOf(10)
const hello = bytesOf(20, 'hello')
const open1 = { placeId: 'p', buildId: 'b' }
const withType = (type: string, sent: Sent): Sent => ({
  ...sent,
  headers: [...(sent.headers ?? []).slice(0, 2), ['Content-Type', type]],
})
const octets = (key: string, bytes: Uint8Array, digest = digestOf(bytes)): Sent =>
  withType('application/octet-stream', { ...put(`/v1/maps/chunks?digest=${digest}`, key, ''), body: bytes })
const map1 = '/v1/maps?placeId=p&buildId=b'
const content1 = '/v1/maps/content?placeId=p&buildId=b'
const tag = `"${digestOf(part)}"`
const two = manifestOf([hello, bytesOf(5, 'missing')])

/** A placeholder for the last cursor, which is that of the consumer `kept`. */
const lastCursor = 'LAST CURSOR'

/** A request of each route that succeeds. There are a complete map of `open1` and an incomplete one. */
const good: Record<string, (key: string) => Sent> = {
  'POST /v1/events/batch': (key) => ({ headers: headersOf(key), body: batchOf(1) }),
  'GET /v1/events': (key) => get('/v1/events', key),
  'GET /v1/maps': (key) => get(map1, key),
  'PUT /v1/maps': (key) => put('/v1/maps', key, { ...open1, buildId: 'new', map: {} }),
  'GET /v1/maps/chunks': (key) => get(`/v1/maps/chunks?digest=${digestOf(part)}`, key),
  'PUT /v1/maps/chunks': (key) => octets(key, hello),
  'GET /v1/maps/content': (key) => get(content1, key),
  'GET /v1/consumers': (key) => get('/v1/consumers', key),
  'GET /v1/consumers/{name}': (key) => get('/v1/consumers/kept', key),
  'PUT /v1/consumers/{name}': (key) => put('/v1/consumers/new', key, { cursor: lastCursor, replaces: null }),
  'DELETE /v1/consumers/{name}': (key) => get('/v1/consumers/kept', key, {}, 'DELETE'),
  'GET /v1/stats': (key) => get('/v1/stats', key),
  'GET /v1/builds': (key) => get('/v1/builds', key),
  'GET /v1/activity': (key) => get('/v1/activity?by=type', key),
  'GET /v1/rejected': (key) => get('/v1/rejected?to=1', key),
  'GET /livez': () => ({ method: 'GET', path: '/livez' }),
  'GET /readyz': () => ({ method: 'GET', path: '/readyz' }),
  'GET /openapi.json': () => ({ method: 'GET', path: '/openapi.json' }),
}

/** Requests for each other status of success. */
const succeeding: Record<string, (key: string) => Sent> = {
  'PUT /v1/consumers/{name} 200': (key) => put('/v1/consumers/kept', key, { cursor: lastCursor, replaces: null }),
  'PUT /v1/maps 200': (key) => put('/v1/maps', key, { ...open1, manifest: manifestOf([part]) }),
  'PUT /v1/maps 202': (key) => put('/v1/maps', key, { ...open1, buildId: 'new', manifest: two }),
  'PUT /v1/maps/chunks 200': (key) =>
    put('/v1/maps/chunks', key, { chunks: [{ digest: digestOf(hello), data: hello.toString('base64') }] }),
  'GET /v1/maps/chunks 304': (key) => get(`/v1/maps/chunks?digest=${digestOf(part)}`, key, { 'If-None-Match': tag }),
  'GET /openapi.json 304': () => ({ method: 'GET', path: '/openapi.json', headers: [['If-None-Match', '*']] }),
  'GET /v1/maps/content 206': (key) => get(content1, key, { Range: 'bytes=1-2' }),
  'GET /v1/maps/content 304': (key) => get(content1, key, { 'If-None-Match': tag }),
}

interface Provoked {
  sent?: (good: Sent, key: string) => Sent
  ingest?: Partial<IngestOptions>
  options?: HandlerOptions
  isDraining?: true
  /** Every operation of the project and the store rejects with it. */
  error?: Error
  /** Returns bytes that only a socket can send. */
  raw?: (good: Sent) => Buffer
}

const rejecting = (error: Error): Provoked => ({ error })
const addHeader = (name: string, value: string) => (sent: Sent) => ({
  ...sent,
  headers: [...(sent.headers ?? []), [name, value] as const],
})
const withPath = (path: string) => (sent: Sent) => ({ ...sent, path })
const withBody = (body: string | Uint8Array) => (sent: Sent) => ({ ...sent, body })
const refuse = () => {
  throw new IngestError('rate-limited', 'Too much.', { retryAfterSeconds: 1 })
}

/** How each code is provoked on any route. */
const anywhere: Partial<Record<ErrorCode, Provoked>> = {
  'malformed-request': {
    raw: (sent) => Buffer.from(requestBytes(sent).toString('latin1').replace('Host: localhost\r\n', ''), 'latin1'),
  },
  'headers-too-large': {
    raw: (sent) => requestBytes({ ...sent, headers: Array.from({ length: 101 }, (_, i) => [`X-${i}`, '1'] as const) }),
  },
  'repeated-header': { sent: addHeader('Content-Encoding', 'gzip, gzip') },
  unauthorized: { sent: (sent) => ({ ...sent, headers: [] }) },
  'rate-limited': {
    options: { rateLimiter: { ...unlimited, admit: refuse } },
  },
  'key-store-unavailable': { ingest: { authenticate: () => Promise.reject(new Error('down')) } },
  draining: { isDraining: true },
  'internal-error': rejecting(new Error('bug')),
  'unsupported-media-type': { sent: (sent) => withType('text/plain', sent) },
  'unsupported-coding': { sent: addHeader('Content-Encoding', 'br') },
  'malformed-body': {
    sent: (sent) =>
      withType('application/json', {
        ...sent,
        path: (sent.path ?? '/v1/events/batch').split('?')[0] as string,
        body: '{',
      }),
  },
  'invalid-argument': {
    sent: (sent) => ({ ...sent, path: `${sent.path}${sent.path?.includes('?') ? '&' : '?'}unknown=1` }),
  },
}

const bigChunk = bytesOf(1_048_577)
/** How a code is provoked that no rule of {@link anywhere} provokes. */
const particular: Record<string, Provoked> = {
  'POST /v1/events/batch invalid-envelope': { sent: withBody('{}') },
  'POST /v1/events/batch batch-too-large': { sent: withBody(batchOfBytes(262_145)) },
  'POST /v1/events/batch too-many-events': { sent: withBody(batchOf(101)) },
  'GET /v1/events invalid-cursor': { sent: withPath('/v1/events?after=junk') },
  'GET /v1/maps map-not-found': { sent: withPath('/v1/maps?placeId=p&buildId=none') },
  'GET /v1/maps invalid-cursor': { sent: withPath('/v1/maps?cursor=junk') },
  'GET /v1/builds invalid-cursor': { sent: withPath('/v1/builds?cursor=junk') },
  'GET /v1/consumers/{name} consumer-not-found': { sent: withPath('/v1/consumers/none') },
  'DELETE /v1/consumers/{name} consumer-not-found': { sent: withPath('/v1/consumers/none') },
  'PUT /v1/consumers/{name} invalid-cursor': { sent: withBody('{"cursor":"junk","replaces":null}') },
  'PUT /v1/consumers/{name} consumer-conflict': { sent: withBody(`{"cursor":"${lastCursor}","replaces":"other"}`) },
  'PUT /v1/consumers/{name} body-too-large': { sent: withBody(Buffer.alloc(16_385)) },
  'PUT /v1/maps invalid-publication': { sent: withBody('{}') },
  'PUT /v1/maps digest-mismatch': {
    sent: withBody(
      JSON.stringify({ ...open1, buildId: 'new', manifest: { ...manifestOf([part]), digest: digestOf(hello) } }),
    ),
  },
  'PUT /v1/maps map-frozen': { sent: withBody(JSON.stringify({ ...open1, buildId: 'frozen', map: {} })) },
  'PUT /v1/maps precondition-failed': {
    sent: (_, key) => put('/v1/maps', key, { ...open1, map: {} }, { 'If-None-Match': '*' }),
  },
  'PUT /v1/maps body-too-large': { sent: withBody(bigChunk) },
  'PUT /v1/maps map-quota-exceeded': {
    sent: (_, key) => put('/v1/maps', key, { ...open1, buildId: 'new', manifest: two }),
    ingest: { maps: { pendingBytesMax: 1 } },
  },
  'GET /v1/maps/chunks chunk-not-found': { sent: withPath(`/v1/maps/chunks?digest=${digestOf(bytesOf(1, 'no'))}`) },
  'PUT /v1/maps/chunks invalid-envelope': { sent: (_, key) => put('/v1/maps/chunks', key, {}) },
  'PUT /v1/maps/chunks digest-mismatch': { sent: (_, key) => octets(key, part, digestOf(hello)) },
  'PUT /v1/maps/chunks chunk-undeclared': { sent: (_, key) => octets(key, bytesOf(3, 'undeclared')) },
  'PUT /v1/maps/chunks body-too-large': {
    sent: (_, key) => ({ ...put('/v1/maps/chunks', key, {}), body: Buffer.alloc(4_194_305) }),
  },
  'PUT /v1/maps/chunks chunk-too-large': { sent: (_, key) => octets(key, bigChunk) },
  'GET /v1/maps/content map-not-found': { sent: withPath('/v1/maps/content?placeId=p&buildId=none') },
  'GET /v1/maps/content precondition-failed': { sent: addHeader('If-Match', '"other"') },
  'GET /v1/maps/content range-not-satisfiable': { sent: addHeader('Range', 'bytes=100-') },
}

/** Documented codes that are not provoked here. */
const unseen: Record<string, string> = {
  'request-timeout': 'needs a client that is slow; serve.test.ts and uploads.test.ts have some',
  'body-consumed': 'needs a body parser before the handler; handlers.test.ts has some',
  'GET /v1/maps/content range-not-satisfiable HEAD': 'HEAD has no ranges (RFC 9110 section 14.2)',
}

for (const { name, responses } of operations) {
  t.test(`${name} returns every documented status and code, and no other`, async (t) => {
    const [method = '', path = ''] = name.split(' ')
    const route = `${method === 'HEAD' ? 'GET' : method} ${path}`
    const isHead = method === 'HEAD'
    const described = isHead ? document.paths[path]?.get?.responses : responses
    t.strictSame(Object.keys(described ?? {}), Object.keys(responses))
    for (const [status, { content }] of Object.entries(described ?? {})) {
      const codes = Object.keys(content?.['application/problem+json']?.examples ?? {}) as ErrorCode[]
      if (codes.length === 0) {
        const request = succeeding[`${route} ${status}`] ?? good[route]
        const response = await exchange(
          t,
          { sent: (_, key) => (request as NonNullable<typeof request>)(key) },
          isHead,
          route,
        )
        if (isHead && status === '206') t.equal(response.status, 200, 'HEAD has no ranges')
        else t.equal(String(response.status), status)
      }
      for (const code of codes) {
        const provoked = `${route} ${code}`
        if (unseen[code] ?? unseen[provoked] ?? (isHead && unseen[`${provoked} HEAD`])) continue
        const how = particular[provoked] ?? anywhere[code] ?? rejecting(new IngestError(code, 'Provoked.'))
        const { status: actual, body } = await exchange(t, how, isHead, route)
        t.equal(String(actual), status, `${provoked}: ${body}`)
        if (!isHead) t.equal(JSON.parse(body).code, code)
      }
    }
  })
}

t.test('every code of the table is documented somewhere, and every provoked one', async (t) => {
  const named = operations.flatMap(({ name, responses }) =>
    Object.values(responses).flatMap(({ content }) =>
      Object.keys(content?.['application/problem+json']?.examples ?? {}).map((code) => ({
        code,
        at: `${name} ${code}`,
      })),
    ),
  )
  const everywhere = new Set(named.map(({ code }) => code))
  t.strictSame(
    codesOfRoutes.filter((code) => !everywhere.has(code)),
    ['not-found', 'method-not-allowed'],
  )
  const places = new Set(named.map(({ at }) => at))
  t.strictSame(
    Object.keys(particular).filter((at) => !places.has(at)),
    [],
  )
})

async function exchange(t: Test, how: Provoked, isHead: boolean, route: string) {
  const { sent = (good) => good, ingest: rules = {}, options = {}, isDraining, error, raw } = how
  const ingest = createIngest({ store: openMemoryStore(), authenticate: () => true, ...rules })
  if (rules.maps === undefined) {
    await publish(ingest, [part])
    await publish(ingest, [part], { placeId: 'p', buildId: 'frozen' })
    await ingest.project(projectId).publishMap({ ...open1, buildId: 'pending', manifest: two })
    await freeze(ingest, 'frozen')
    const cursor = await ingest.project(projectId).lastCursor()
    await ingest.project(projectId).putConsumer('kept', { cursor, replaces: null })
  }
  const log = collectErrors().log
  const failing = error
    ? withMethods({ ...ingest, checkReady: () => Promise.reject(error) }, (project) => reject(project, error))
    : ingest
  const given = sent(good[route]?.('any') ?? {}, 'any')
  const last = await ingest.project(projectId).lastCursor()
  const request = typeof given.body === 'string' ? { ...given, body: given.body.replace(lastCursor, last) } : given
  const method = isHead ? 'HEAD' : (request.method ?? 'POST')
  if (raw) return sendRaw(t, raw({ ...request, method }), isHead, createHandler(failing, { log }))
  const draining = isDraining && { draining: AbortSignal.abort() }
  const { send } = await openFetch(t, { log, ...options, ...draining }, failing)
  return send({ ...request, method })
}

/** A project whose operations all reject. */
function reject(project: Ingest, error: Error): Partial<Ingest> {
  const rejected = Object.entries(project).flatMap(([name, value]) =>
    typeof value === 'function' ? [[name, () => Promise.reject(error)]] : [],
  )
  return { ...Object.fromEntries(rejected), readPages: () => failingStream(error) }
}

// biome-ignore lint/correctness/useYield: it fails before the first event
async function* failingStream(error: Error): AsyncGenerator<never> {
  throw error
}

async function sendRaw(t: Test, bytes: Buffer, isHead: boolean, handler: ReturnType<typeof createHandler>) {
  const raw = await openRaw(await listen(t, createServer({ requireHostHeader: false }, handler)))
  raw.write(bytes)
  const response = await raw.read(isHead)
  raw.socket.destroy()
  return response
}
