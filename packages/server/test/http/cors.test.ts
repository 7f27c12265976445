import t from 'tap'
import { createRouter } from '../../src/router.ts'
import { edges } from '../edges.ts'
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

for (const { name, open } of edges) {
  t.test(`by ${name}, a page of an allowed origin may send and read`, async (t) => {
    let lookups = 0
    const { ingest, headers } = await openTestIngest()
    const authenticate: typeof ingest.authenticate = (credentials) => {
      lookups++
      return ingest.authenticate(credentials)
    }
    const edge = await open({ ...ingest, authenticate }, { cors: ['https://other.example.com', origin] })
    t.teardown(() => edge.close())
    const allowed = await edge.send({ method: 'OPTIONS', headers: preflight })
    t.equal(allowed.status, 204)
    t.equal(allowed.body, '')
    t.match(corsOf(allowed.headers), {
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': /Authorization, .*Content-Type, .*X-Ingestion-Key, X-Project-Id/,
      'access-control-max-age': '7200',
      vary: 'Origin',
    })
    t.equal(lookups, 0, 'a preflight checks no key')
    t.notOk('access-control-allow-credentials' in allowed.headers)

    const readable = { 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed, vary: 'Origin' }
    const stored = await edge.send({ headers: [...headers, ['Origin', origin]], body: batchOf(1) })
    t.equal(stored.status, 202)
    t.strictSame(corsOf(stored.headers), readable)
    for (const [status, sent] of [
      [401, { headers: [['Origin', origin]] as [string, string][], body: batchOf(1) }],
      [404, { path: '/v1', headers: preflight, method: 'OPTIONS' }],
      [405, { headers: [['Origin', origin]] as [string, string][], method: 'DELETE' }],
      [200, { path: '/readyz', headers: [['Origin', origin]] as [string, string][], method: 'GET' }],
    ] as const) {
      const response = await edge.send(sent)
      t.equal(response.status, status)
      t.strictSame(corsOf(response.headers), readable, 'a page reads errors too')
    }
  })

  t.test(`by ${name}, a page of another origin may not`, async (t) => {
    const { ingest, headers } = await openTestIngest()
    const edge = await open(ingest, { cors: [origin] })
    t.teardown(() => edge.close())
    for (const other of ['https://app.example.com.evil.example', 'http://app.example.com', 'null']) {
      const refused = await edge.send({ method: 'OPTIONS', headers: [['Origin', other], ...preflight.slice(1)] })
      t.notOk('access-control-allow-origin' in refused.headers)
      const sent = await edge.send({ headers: [...headers, ['Origin', other]], body: batchOf(1) })
      t.strictSame(corsOf(sent.headers), { vary: 'Origin' }, 'a cache keeps the two apart')
    }
  })

  t.test(`by ${name}, * allows every origin`, async (t) => {
    const { ingest } = await openTestIngest()
    const edge = await open(ingest, { cors: ['*'] })
    t.teardown(() => edge.close())
    const response = await edge.send({ method: 'OPTIONS', path: '/v1/maps', headers: preflight })
    t.match(corsOf(response.headers), {
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, HEAD, PUT',
      vary: undefined,
    })
  })

  t.test(`by ${name}, CORS is off by default`, async (t) => {
    const { ingest, headers } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const refused = await edge.send({ method: 'OPTIONS', headers: preflight })
    t.equal(refused.status, 405)
    t.strictSame(corsOf(refused.headers), {})
    const stored = await edge.send({ headers: [...headers, ['Origin', origin]], body: batchOf(1) })
    t.equal(stored.status, 202)
    t.strictSame(corsOf(stored.headers), {})
  })
}

t.test('the Vary of a map is kept', async (t) => {
  const { ingest, headers } = await openTestIngest()
  await ingest.project('game-1').publishMap({ placeId: 'a', buildId: 'b', map: {} })
  const open = edges.find(({ name }) => name === 'fetch')?.open
  const edge = await open?.(ingest, { cors: [origin] })
  const response = await edge?.send({ method: 'GET', path: '/v1/maps/content?placeId=a&buildId=b', headers })
  t.equal(response?.headers.vary, 'X-Project-Id, Origin')
})

t.test('what is not an origin is refused', async (t) => {
  const { ingest } = await openTestIngest()
  for (const wrong of ['app.example.com', `${origin}/`, `${origin}/path`, 'null', '', 'https://*.example.com']) {
    t.throws(() => createRouter(ingest, { cors: [wrong] }), { code: 'invalid-argument' }, wrong)
  }
  t.throws(() => createRouter(ingest, { cors: ['*', origin] }), { code: 'invalid-argument' })
})

t.test('an empty list of origins disables CORS', async (t) => {
  const { ingest, headers } = await openTestIngest()
  for (const { open } of edges) {
    const edge = await open(ingest, { cors: [] })
    t.teardown(() => edge.close())
    t.match(await edge.send({ method: 'OPTIONS', headers: preflight, body: '' }), { status: 405 })
    t.strictSame(corsOf((await edge.send({ headers, body: batchOf(1) })).headers), {})
  }
})
