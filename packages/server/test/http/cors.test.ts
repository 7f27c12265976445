import t from 'tap'
import { createPublicRouter } from '../../src/public-router.ts'
import { byEachEdge, openFetch } from '../edges.ts'
import { batchOf, openTestIngest } from '../test-ingest.ts'

const origin = 'https://app.example.com'
const preflight: [string, string][] = [
  ['Origin', origin],
  ['Access-Control-Request-Method', 'POST'],
  ['Access-Control-Request-Headers', 'authorization,content-type,x-project-id'],
]
/** The headers of CORS in a response. */
const corsOf = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => /^access-control-|^vary$/.test(name)))
const exposed = 'Accept-Ranges, Content-Range, ETag, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id'

byEachEdge('a page of an allowed origin may send and read', async (t, open) => {
  let lookups = 0
  const authenticate = () => {
    lookups++
    return true
  }
  const { headers, send } = await open({ cors: ['https://other.example.com', origin] }, { authenticate })
  const allowed = await send({ method: 'OPTIONS', headers: preflight })
  t.equal(allowed.status, 204)
  t.equal(allowed.body, '')
  t.match(corsOf(allowed.headers), {
    'access-control-allow-origin': origin,
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers':
      /Authorization, Baggage, .*Content-Type, .*Traceparent, Tracestate, X-Ingestion-Key, X-Project-Id/,
    'access-control-max-age': '7200',
    vary: 'Origin',
  })
  t.equal(lookups, 0, 'a preflight checks no key')
  t.notOk('access-control-allow-credentials' in allowed.headers)

  const readable = { 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed, vary: 'Origin' }
  const stored = await send({ headers: [...headers, ['Origin', origin]], body: batchOf(1) })
  t.equal(stored.status, 202)
  t.strictSame(corsOf(stored.headers), readable)
  for (const [status, sent] of [
    [401, { headers: [['Origin', origin]] as [string, string][], body: batchOf(1) }],
    [404, { path: '/v1', headers: preflight, method: 'OPTIONS' }],
    [405, { headers: [['Origin', origin]] as [string, string][], method: 'DELETE' }],
    [200, { path: '/readyz', headers: [['Origin', origin]] as [string, string][], method: 'GET' }],
  ] as const) {
    const response = await send(sent)
    t.equal(response.status, status)
    t.strictSame(corsOf(response.headers), readable, 'a page reads errors too')
  }
})

byEachEdge('a page of another origin may not', async (t, open) => {
  const { headers, send } = await open({ cors: [origin] })
  for (const other of ['https://app.example.com.evil.example', 'http://app.example.com', 'null']) {
    const refused = await send({ method: 'OPTIONS', headers: [['Origin', other], ...preflight.slice(1)] })
    t.notOk('access-control-allow-origin' in refused.headers)
    const sent = await send({ headers: [...headers, ['Origin', other]], body: batchOf(1) })
    t.strictSame(corsOf(sent.headers), { vary: 'Origin' }, 'a cache keeps the two apart')
  }
})

byEachEdge('* allows every origin', async (t, open) => {
  const { send } = await open({ cors: ['*'] })
  const response = await send({ method: 'OPTIONS', path: '/v1/maps', headers: preflight })
  t.match(corsOf(response.headers), {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET, HEAD, PUT',
    vary: undefined,
  })
})

byEachEdge('CORS is off by default, and without an origin', async (t, open) => {
  for (const options of [{}, { cors: [] }]) {
    const { headers, send } = await open(options)
    const refused = await send({ method: 'OPTIONS', headers: preflight })
    t.equal(refused.status, 405)
    t.strictSame(corsOf(refused.headers), {})
    const stored = await send({ headers: [...headers, ['Origin', origin]], body: batchOf(1) })
    t.equal(stored.status, 202)
    t.strictSame(corsOf(stored.headers), {})
  }
})

t.test('the Vary of a map is kept', async (t) => {
  const { ingest, headers, send } = await openFetch(t, { cors: [origin] })
  await ingest.project('game-1').publishMap({ placeId: 'a', buildId: 'b', map: {} })
  const response = await send({ method: 'GET', path: '/v1/maps/content?placeId=a&buildId=b', headers })
  t.equal(response.headers.vary, 'X-Project-Id, Origin')
})

t.test('a text that is not an origin is refused', async (t) => {
  const { ingest } = await openTestIngest()
  for (const wrong of ['app.example.com', `${origin}/`, `${origin}/path`, 'null', '', 'https://*.example.com']) {
    t.throws(() => createPublicRouter(ingest, { cors: [wrong] }), { code: 'invalid-argument' }, wrong)
  }
  t.throws(() => createPublicRouter(ingest, { cors: ['*', origin] }), { code: 'invalid-argument' })
})
