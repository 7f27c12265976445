import { gzipSync } from 'node:zlib'
import { batchBytesMax, type EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import type { EdgeRequest } from '../../src/http/request.ts'
import { parseRawHeaders } from '../../src/http/request.ts'
import { batchPlaces, createPlaces } from '../../src/limits/concurrency.ts'
import { createRateLimiter, type RateLimits } from '../../src/limits/rate-limiter.ts'
import { receiveBatch } from '../../src/routes/post-batch.ts'
import { batchOf, headersOf, openTestIngest, projectId } from '../batches.ts'
import { edges } from '../edges.ts'

function requestOf(pairs: readonly (readonly [string, string])[], body: string): EdgeRequest & { reads: number } {
  const request = {
    method: 'POST',
    path: '/v1/events/batch',
    query: '',
    headers: parseRawHeaders(pairs.flat()),
    reads: 0,
    onLeave: () => () => {},
    async readBody() {
      request.reads++
      return Buffer.from(body)
    },
  }
  return request
}

function contextOf(ingest: EmbeddedIngest, rateLimits?: RateLimits) {
  const limiter = rateLimits && createRateLimiter({ now: () => 0, ...rateLimits })
  return { ingest, limiter, log: undefined, places: createPlaces(batchPlaces) }
}

t.test('of several faults the first in the order of the contract is answered', async (t) => {
  const { ingest, key, storedCount } = await openTestIngest()
  const context = contextOf(ingest, { requests: { perSecond: 1, burst: 1 }, events: { perSecond: 1, burst: 100 } })
  // each line mends the first fault of the line before it
  const bad = [
    ['Content-Type', 'text/plain'],
    ['Content-Encoding', 'br'],
    ['Content-Length', String(batchBytesMax + 1)],
  ] as const
  const [project, keyPair] = headersOf(key) as [[string, string], [string, string], [string, string]]
  const type = ['Content-Type', 'application/json'] as const
  const steps = [
    ['unauthorized', [...bad, ['Host', 'a'], ['Host', 'a']], ''],
    ['repeated-header', [project, keyPair, ...bad, ['Host', 'a'], ['Host', 'a']], ''],
    ['unsupported-media-type', [project, keyPair, ...bad], ''],
    ['unsupported-coding', [project, keyPair, type, bad[1], bad[2]], ''],
    ['batch-too-large', [project, keyPair, type, bad[2]], ''],
    ['rate-limited', [project, keyPair, type], ''],
  ] as const
  context.limiter?.takeRequest(projectId, 0)
  for (const [code, pairs, body] of steps) {
    const request = requestOf(pairs, body)
    await t.rejects(receiveBatch(context, request, {}), { code })
    t.equal(request.reads, 0, 'the body is not read for it')
  }
  const later = contextOf(ingest, {
    events: { perSecond: 1, burst: 100 },
    batchBytes: { perSecond: 1, burst: batchBytesMax * 4 },
  })
  later.limiter?.takeEvents(projectId, 100, 0)
  for (const [code, body] of [
    ['batch-too-large', `[${' '.repeat(batchBytesMax)}`],
    ['malformed-body', '['],
    ['invalid-envelope', '{}'],
    ['too-many-events', batchOf(101)],
    ['rate-limited', '{"events":[1]}'],
  ] as const) {
    await t.rejects(receiveBatch(later, requestOf([project, keyPair, type], body), {}), { code })
  }
  t.equal(await storedCount(), 0)
})

t.test('the scope that is asked for is that of writing events', async (t) => {
  const seen: object[] = []
  const { ingest, headers } = await openTestIngest({
    authenticate: (credentials) => {
      seen.push(credentials)
      return true
    },
  })
  await receiveBatch(contextOf(ingest), requestOf(headers, batchOf(1)), {})
  t.match(seen, [{ projectId, scope: 'events:write' }])
})

t.test('what is not exactly true does not open a project', async (t) => {
  for (const answer of [undefined, 1, {}, 'true']) {
    const { ingest, headers } = await openTestIngest({
      authenticate: () => JSON.parse(JSON.stringify(answer) ?? 'null'),
    })
    await t.rejects(receiveBatch(contextOf(ingest), requestOf(headers, batchOf(1)), {}), { code: 'unauthorized' })
  }
})

for (const { name, open } of edges) {
  t.test(`by ${name}, too many requests are 429 with the time to wait, which is enough`, async (t) => {
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

  t.test(`by ${name}, too many events are 429 and nothing of the batch is stored`, async (t) => {
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

  t.test(`by ${name}, the bytes of bodies are limited, declared or not, inflated`, async (t) => {
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

  t.test(`by ${name}, who is not authorized takes nothing and learns no limits`, async (t) => {
    const { ingest, headers } = await openTestIngest()
    const edge = await open(ingest, { rateLimits: { requests: { perSecond: 1, burst: 1 }, now: () => 0 } })
    t.teardown(() => edge.close())
    for (let i = 0; i < 3; i++) {
      const answer = await edge.send({ headers: headersOf('junk'), body: batchOf(1) })
      t.equal(answer.status, 401)
      t.notOk('ratelimit' in answer.headers)
    }
    t.equal((await edge.send({ headers, body: batchOf(1) })).status, 202)
  })

  t.test(`by ${name}, nothing is limited unless it was asked for`, async (t) => {
    const { ingest, headers } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => edge.send({ headers, body: batchOf(1, `${i}-`) })),
    )
    t.ok(answers.every(({ status }) => status === 202))
    t.notOk('ratelimit' in (answers[0]?.headers ?? {}))
  })
}
