import { gzipSync } from 'node:zlib'
import { batchBytesMax } from '@ingest/core'
import t from 'tap'
import { parseRawHeaders } from '../../src/http/request.ts'
import type { RateLimits } from '../../src/limits/rate-limits.ts'
import { createPublicRouter } from '../../src/public-router.ts'
import type { Router } from '../../src/router.ts'
import { byEachEdge, openFetch } from '../edges.ts'
import { batchOf, headersOf, openTestIngest } from '../test-ingest.ts'

/** The code of the problem in response to a batch, and how often its body was read. */
async function refusalOf(router: Router, pairs: readonly (readonly [string, string])[], body = '') {
  let reads = 0
  const { body: problem } = await router.respond({
    method: 'POST',
    path: '/v1/events/batch',
    query: '',
    headers: parseRawHeaders(pairs.flat()),
    signal: () => new AbortController().signal,
    async readBody() {
      reads++
      return Buffer.from(body)
    },
  })
  return { code: JSON.parse(String(problem)).code, reads }
}

t.test('Retry-After is long enough for a full batch of the same size', async (t) => {
  /** The response to the second of two batches. */
  const secondOf = async (rateLimits: RateLimits, first: string, second: string) => {
    const { headers, send } = await openFetch(t, { rateLimits })
    t.match(await send({ headers, body: first }), { status: 202 })
    return send({ headers, body: second })
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
  const routerOf = (rateLimits: RateLimits) =>
    createPublicRouter(ingest, { rateLimits: { now: () => 0, ...rateLimits } })
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

t.test('only a result of exactly true authenticates', async (t) => {
  for (const result of [undefined, 1, {}, 'true']) {
    const { ingest, headers } = await openTestIngest({
      authenticate: () => JSON.parse(JSON.stringify(result) ?? 'null'),
    })
    t.match(await refusalOf(createPublicRouter(ingest), headers, batchOf(1)), { code: 'unauthorized' })
  }
})

byEachEdge('too many requests are a 429, and a retry after Retry-After is accepted', async (t, open) => {
  let time = 0
  const rateLimits = { requests: { perSecond: 1, burst: 2 }, now: () => time }
  const { headers, storedCount, send } = await open({ rateLimits })
  const sendOne = (prefix: string) => send({ headers, body: batchOf(1, prefix) })
  const first = await sendOne('a')
  t.equal(
    first.headers['ratelimit-policy'],
    '"requests";q=2;qu="requests";w=2, "events";q=100000;qu="events";w=5, "batch-bytes";q=51200000;qu="content-bytes";w=5',
  )
  t.match(first.headers.ratelimit, '"requests";r=1;t=1, "events";r=99999;t=1, "batch-bytes";')
  t.equal((await sendOne('b')).status, 202)
  const refused = await sendOne('c')
  t.match(refused, { status: 429, json: { code: 'rate-limited', retryable: true, retryAfter: 1, limit: 1 } })
  t.match(refused.headers.ratelimit, '"requests";r=0;t=2, "events";r=99998;t=1, "batch-bytes";')
  time += Number(refused.headers['retry-after']) * 1000
  t.equal((await sendOne('c')).status, 202)
  t.equal(await storedCount(), 3)
})

byEachEdge('too many events are a 429, and nothing of the batch is stored', async (t, open) => {
  let time = 0
  const rateLimits = { requests: { perSecond: 1, burst: 5 }, events: { perSecond: 10, burst: 100 }, now: () => time }
  const { headers, storedCount, send } = await open({ rateLimits })
  t.equal((await send({ headers, body: batchOf(90, 'a') })).status, 202)
  for (let i = 0; i < 3; i++) {
    const refused = await send({ headers, body: batchOf(60, 'b') })
    t.equal(refused.status, 429)
    t.equal(refused.headers['retry-after'], '5')
    t.match(refused.headers.ratelimit, `"requests";r=${3 - i};t=${2 + i}, "events";r=10;t=9`)
  }
  t.equal(await storedCount(), 90)
  time += 5000
  t.equal((await send({ headers, body: batchOf(60, 'b') })).status, 202)
  t.equal(await storedCount(), 150)
})

byEachEdge('the inflated bytes of bodies are limited, declared or not', async (t, open) => {
  let time = 0
  const rateLimits = { batchBytes: { perSecond: 1000, burst: batchBytesMax }, now: () => time }
  const { headers, storedCount, send } = await open({ rateLimits })
  const body = `{"events":[],"rest":"${'x'.repeat(batchBytesMax - 1000)}"}`
  const gzip = [...headers, ['Content-Encoding', 'gzip']] as [string, string][]
  const first = await send({ headers: gzip, body: gzipSync(body) })
  t.equal(first.status, 202)
  t.match(first.headers.ratelimit, /"batch-bytes";r=9\d\d;t=262$/)
  t.equal((await send({ headers: gzip, body: gzipSync(body) })).status, 202)
  const refused = await send({ headers, body: '{"events":[]}' })
  t.match(refused, { status: 429, json: { code: 'rate-limited', limit: 1000, retryAfter: 261 } })
  t.match(refused.headers.ratelimit, /"batch-bytes";r=0;t=523$/)
  time += Number(refused.headers['retry-after']) * 1000
  t.equal((await send({ headers, body: '{"events":[]}' })).status, 202)
  t.equal(await storedCount(), 0)
})

byEachEdge('an unauthorized request is not charged, and its response has no limits', async (t, open) => {
  const { headers, send } = await open({ rateLimits: { requests: { perSecond: 1, burst: 1 }, now: () => 0 } })
  for (let i = 0; i < 3; i++) {
    const response = await send({ headers: headersOf('junk'), body: batchOf(1) })
    t.equal(response.status, 401)
    t.notOk('ratelimit' in response.headers)
  }
  t.equal((await send({ headers, body: batchOf(1) })).status, 202)
})

byEachEdge('there are no rate limits by default', async (t, open) => {
  const { headers, send } = await open()
  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, i) => send({ headers, body: batchOf(1, `${i}-`) })),
  )
  t.ok(responses.every(({ status }) => status === 202))
  t.notOk('ratelimit' in (responses[0]?.headers ?? {}))
})
