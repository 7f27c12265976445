import { gzipSync } from 'node:zlib'
import { batchBytesMax } from '@ingest/core'
import t from 'tap'
import { parseRawHeaders } from '../../src/http/request.ts'
import type { RateLimits } from '../../src/limits/rate-limits.ts'
import { createRouter, type Router } from '../../src/router.ts'
import { edges } from '../edges.ts'
import { batchOf, headersOf, openTestIngest, projectId } from '../test-ingest.ts'

/** The code of the problem in response to a batch, and how often its body was read. */
async function refusalOf(router: Router, pairs: readonly (readonly [string, string])[], body = '') {
  let reads = 0
  const { body: problem } = await router.respond({
    method: 'POST',
    path: '/v1/events/batch',
    query: '',
    headers: parseRawHeaders(pairs.flat()),
    onDisconnect: () => () => {},
    async readBody() {
      reads++
      return Buffer.from(body)
    },
  })
  return { code: JSON.parse(String(problem)).code, reads }
}

t.test('Retry-After is long enough for a full batch of the same size', async (t) => {
  const { ingest, headers } = await openTestIngest()
  /** The response to the second of two batches. */
  const secondOf = async (rateLimits: RateLimits, first: string, second: string) => {
    const edge = await edges.find(({ name }) => name === 'fetch')?.open(ingest, { rateLimits })
    t.match(await edge?.send({ headers, body: first }), { status: 202 })
    return edge?.send({ headers, body: second })
  }
  const now = () => 0
  t.match(
    await secondOf(
      { requests: { perSecond: 1, burst: 1 }, events: { perSecond: 2, burst: 100 }, now },
      batchOf(100, 'a-'),
      batchOf(1, 'a-'),
    ),
    { status: 429, headers: { 'retry-after': '50' }, body: /limited to 1 requests/ },
    'the number of its events is not known yet',
  )
  const padded = batchOf(100, 'b-').padEnd(batchBytesMax)
  t.match(
    await secondOf(
      {
        events: { perSecond: 100, burst: 100 },
        batchBytes: { perSecond: 1024, burst: batchBytesMax * 2 },
        now,
      },
      padded,
      padded,
    ),
    { status: 429, headers: { 'retry-after': String(batchBytesMax / 1024) }, body: /limited to 100 events/ },
    'its bytes stay charged',
  )
})

t.test('of several errors, the first in the documented order is returned', async (t) => {
  const { ingest, key, storedCount } = await openTestIngest()
  const routerOf = (rateLimits: RateLimits) => createRouter(ingest, { rateLimits: { now: () => 0, ...rateLimits } })
  const [project, keyPair] = headersOf(key) as [[string, string], [string, string], [string, string]]
  const type = ['Content-Type', 'application/json'] as const
  const accepted = { code: undefined, reads: 1 }
  // each line corrects the first error of the line before it
  const bad = [
    ['Content-Type', 'text/plain'],
    ['Content-Encoding', 'br'],
    ['Content-Length', String(batchBytesMax + 1)],
  ] as const
  const steps = [
    ['unauthorized', [...bad, ['Host', 'a'], ['Host', 'a']]],
    ['repeated-header', [project, keyPair, ...bad, ['Host', 'a'], ['Host', 'a']]],
    ['unsupported-media-type', [project, keyPair, ...bad]],
    ['unsupported-coding', [project, keyPair, type, bad[1], bad[2]]],
    ['batch-too-large', [project, keyPair, type, bad[2]]],
    ['rate-limited', [project, keyPair, type]],
  ] as const
  const router = routerOf({ requests: { perSecond: 1, burst: 1 } })
  t.strictSame(await refusalOf(router, [project, keyPair, type], '{"events":[]}'), accepted)
  for (const [code, pairs] of steps) {
    t.strictSame(await refusalOf(router, pairs), { code, reads: 0 }, 'the body is not read')
  }
  t.equal(await storedCount(), 0)
  const later = routerOf({
    events: { perSecond: 1, burst: 100 },
    batchBytes: { perSecond: 1, burst: batchBytesMax * 4 },
  })
  t.strictSame(await refusalOf(later, [project, keyPair, type], batchOf(100)), accepted)
  for (const [code, body] of [
    ['batch-too-large', `[${' '.repeat(batchBytesMax)}`],
    ['malformed-body', '['],
    ['invalid-envelope', '{}'],
    ['too-many-events', batchOf(101)],
    ['rate-limited', '{"events":[1]}'],
  ] as const) {
    t.strictSame(await refusalOf(later, [project, keyPair, type], body), { code, reads: 1 })
  }
  t.equal(await storedCount(), 100)
})

t.test('a batch needs the scope to write events', async (t) => {
  const seen: object[] = []
  const { ingest, headers } = await openTestIngest({
    authenticate: (credentials) => {
      seen.push(credentials)
      return true
    },
  })
  await refusalOf(createRouter(ingest), headers, batchOf(1))
  t.match(seen, [{ projectId, scope: 'events:write' }])
})

t.test('only a result of exactly true authenticates', async (t) => {
  for (const result of [undefined, 1, {}, 'true']) {
    const { ingest, headers } = await openTestIngest({
      authenticate: () => JSON.parse(JSON.stringify(result) ?? 'null'),
    })
    t.match(await refusalOf(createRouter(ingest), headers, batchOf(1)), { code: 'unauthorized' })
  }
})

for (const { name, open } of edges) {
  t.test(`by ${name}, too many requests are a 429, and a retry after Retry-After is accepted`, async (t) => {
    let time = 0
    const { ingest, headers, storedCount } = await openTestIngest()
    const rateLimits = { requests: { perSecond: 1, burst: 2 }, now: () => time }
    const edge = await open(ingest, { rateLimits })
    t.teardown(() => edge.close())
    const send = (prefix: string) => edge.send({ headers, body: batchOf(1, prefix) })
    const first = await send('a')
    t.equal(
      first.headers['ratelimit-policy'],
      '"requests";q=2;qu="requests";w=2, "events";q=100000;qu="events";w=5, "batch-bytes";q=51200000;qu="content-bytes";w=5',
    )
    t.match(first.headers.ratelimit, '"requests";r=1;t=1, "events";r=99999;t=1, "batch-bytes";')
    t.equal((await send('b')).status, 202)
    const refused = await send('c')
    t.equal(refused.status, 429)
    t.match(JSON.parse(refused.body), { code: 'rate-limited', retryable: true, retryAfter: 1, limit: 1 })
    t.match(refused.headers.ratelimit, '"requests";r=0;t=2, "events";r=99998;t=1, "batch-bytes";')
    time += Number(refused.headers['retry-after']) * 1000
    t.equal((await send('c')).status, 202)
    t.equal(await storedCount(), 3)
  })

  t.test(`by ${name}, too many events are a 429, and nothing of the batch is stored`, async (t) => {
    let time = 0
    const { ingest, headers, storedCount } = await openTestIngest()
    const rateLimits = { requests: { perSecond: 1, burst: 5 }, events: { perSecond: 10, burst: 100 }, now: () => time }
    const edge = await open(ingest, { rateLimits })
    t.teardown(() => edge.close())
    t.equal((await edge.send({ headers, body: batchOf(90, 'a') })).status, 202)
    for (let i = 0; i < 3; i++) {
      const refused = await edge.send({ headers, body: batchOf(60, 'b') })
      t.equal(refused.status, 429)
      t.equal(refused.headers['retry-after'], '5')
      t.match(refused.headers.ratelimit, `"requests";r=${3 - i};t=${2 + i}, "events";r=10;t=9`)
    }
    t.equal(await storedCount(), 90)
    time += 5000
    t.equal((await edge.send({ headers, body: batchOf(60, 'b') })).status, 202)
    t.equal(await storedCount(), 150)
  })

  t.test(`by ${name}, the inflated bytes of bodies are limited, declared or not`, async (t) => {
    let time = 0
    const { ingest, headers, storedCount } = await openTestIngest()
    const rateLimits = { batchBytes: { perSecond: 1000, burst: batchBytesMax }, now: () => time }
    const edge = await open(ingest, { rateLimits })
    t.teardown(() => edge.close())
    const body = `{"events":[],"rest":"${'x'.repeat(batchBytesMax - 1000)}"}`
    const gzip = [...headers, ['Content-Encoding', 'gzip']] as [string, string][]
    const first = await edge.send({ headers: gzip, body: gzipSync(body) })
    t.equal(first.status, 202)
    t.match(first.headers.ratelimit, /"batch-bytes";r=9\d\d;t=262$/)
    t.equal((await edge.send({ headers: gzip, body: gzipSync(body) })).status, 202)
    const refused = await edge.send({ headers, body: '{"events":[]}' })
    t.equal(refused.status, 429)
    t.match(JSON.parse(refused.body), { code: 'rate-limited', limit: 1000, retryAfter: 261 })
    t.match(refused.headers.ratelimit, /"batch-bytes";r=0;t=523$/)
    time += Number(refused.headers['retry-after']) * 1000
    t.equal((await edge.send({ headers, body: '{"events":[]}' })).status, 202)
    t.equal(await storedCount(), 0)
  })

  t.test(`by ${name}, an unauthorized request is not charged, and its response has no limits`, async (t) => {
    const { ingest, headers } = await openTestIngest()
    const edge = await open(ingest, { rateLimits: { requests: { perSecond: 1, burst: 1 }, now: () => 0 } })
    t.teardown(() => edge.close())
    for (let i = 0; i < 3; i++) {
      const response = await edge.send({ headers: headersOf('junk'), body: batchOf(1) })
      t.equal(response.status, 401)
      t.notOk('ratelimit' in response.headers)
    }
    t.equal((await edge.send({ headers, body: batchOf(1) })).status, 202)
  })

  t.test(`by ${name}, there are no rate limits by default`, async (t) => {
    const { ingest, headers } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, i) => edge.send({ headers, body: batchOf(1, `${i}-`) })),
    )
    t.ok(responses.every(({ status }) => status === 202))
    t.notOk('ratelimit' in (responses[0]?.headers ?? {}))
  })
}
