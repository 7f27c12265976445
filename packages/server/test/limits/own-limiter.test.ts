import { setImmediate as turn } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import t from 'tap'
import { type AdmitOptions, type Amounts, createRateLimiter, type RateLimiter } from '../../src/limits/rate-limiter.ts'
import { createRouter } from '../../src/router.ts'
import { edges } from '../edges.ts'
import { get, put } from '../map-parts.ts'
import { batchOf, collectErrors, openTestIngest, projectId } from '../test-ingest.ts'

/** A limiter of which each method waits, as for another process; `calls` are the bytes of reads that are charged. */
function createSlowLimiter(limits: Parameters<typeof createRateLimiter>[0]) {
  const limiter = createRateLimiter(limits)
  const calls: number[] = []
  const slow: RateLimiter = {
    async admit(...args) {
      await turn()
      return limiter.admit(...args)
    },
    async charge(projectId, amounts) {
      await turn()
      if (amounts.readBytes !== undefined) calls.push(amounts.readBytes)
      return limiter.charge(projectId, amounts)
    },
    async headers(...args) {
      await turn()
      return limiter.headers(...args)
    },
  }
  return { slow, limiter, calls }
}

/** Without a server to close. */
const fetchEdge = edges.find(({ name }) => name === 'fetch')

const publication = { placeId: 'p', buildId: 'b', map: 1 }

for (const { name, open } of edges) {
  t.test(`by ${name}, a limiter of promises limits batches, maps and reads`, async (t) => {
    const { ingest, key, headers, storedCount } = await openTestIngest()
    const { slow } = createSlowLimiter({
      requests: { perSecond: 1, burst: 2 },
      events: { perSecond: 1, burst: 100 },
      mapBytes: { perSecond: 1, burst: 100 },
      readBytes: { perSecond: 1, burst: 5000 },
      now: () => 0,
    })
    const edge = await open(ingest, { rateLimiter: slow })
    const large = { ...publication, map: 'x'.repeat(200) }
    t.teardown(() => edge.close())
    const first = await edge.send({ headers, body: batchOf(60) })
    t.match(first, { status: 202, headers: { ratelimit: /^"requests";r=1;t=1, "events";r=40;t=60, / } })
    const tooManyEvents = await edge.send({ headers, body: batchOf(41, 'f-') })
    t.match(tooManyEvents, { status: 429, body: /rate-limited/ })
    t.match(await edge.send({ headers, body: batchOf(1) }), { status: 429, body: /requests a second/ })
    t.equal(await storedCount(), 60)
    t.match(await edge.send(put('/v1/maps', key, large)), { status: 201 })
    t.match(await edge.send(put('/v1/maps', key, large)), { status: 429 })
    t.match(await edge.send(get('/v1/events', key)), { status: 200 })
    t.match(await edge.send(get('/v1/events', key)), { status: 429, headers: { ratelimit: '"read-bytes";r=0;' } })
  })

  t.test(`by ${name}, a limiter that fails is a 503, and nothing is admitted`, async (t) => {
    const secret = new Error('redis://:opensesame@counters')
    const limits = { now: () => 0 }
    for (const [method, limit, send] of [
      ['admit', 'requests', 'batch'],
      ['charge', 'batchBytes', 'batch'],
      ['admit', 'events', 'batch'],
      ['admit', 'mapRequests', 'map'],
      ['charge', 'mapBytes', 'map'],
      ['admit', 'readRequests', 'read'],
      ['charge', 'readBytes', 'read'],
    ] as const) {
      const { ingest, key, headers, storedCount } = await openTestIngest()
      await ingest.project(projectId).submitBatch(Buffer.from(batchOf(1, 'stored-')))
      for (const fail of [
        () => {
          throw secret
        },
        () => Promise.reject(secret),
      ]) {
        const { log, errors } = collectErrors()
        const limiter = createRateLimiter(limits)
        const failing = {
          ...limiter,
          [method]: (id: string, amounts: Amounts, options?: AdmitOptions) =>
            limit in amounts ? fail() : limiter[method](id, amounts, options),
        }
        const edge = await open(ingest, { rateLimiter: failing, log })
        t.teardown(() => edge.close())
        const sent = {
          batch: { headers, body: batchOf(1) },
          map: put('/v1/maps', key, publication),
          read: get('/v1/events', key),
        }[send]
        const response = await edge.send(sent)
        t.match(response, { status: 503, headers: { 'retry-after': '1', ratelimit: /r=/ } }, limit)
        t.match(JSON.parse(response.body), { code: 'overloaded', retryable: true })
        t.notMatch(response.body, /opensesame|counters/)
        t.match(errors, [{ err: secret }])
      }
      t.equal(await storedCount(), 1)
      t.strictSame((await ingest.project(projectId).listMaps()).maps, [])
    }
  })

  t.test(`by ${name}, a response stands if its rate limit headers fail`, async (t) => {
    const { ingest, headers, storedCount } = await openTestIngest()
    const { log, errors } = collectErrors()
    const rateLimiter = { ...createRateLimiter(), headers: () => Promise.reject(new Error('gone')) }
    const edge = await open(ingest, { rateLimiter, log })
    t.teardown(() => edge.close())
    const response = await edge.send({ headers, body: batchOf(1) })
    t.match(response, { status: 202 })
    t.notOk('ratelimit' in response.headers)
    t.equal(errors.length, 1)
    t.equal(await storedCount(), 1)
  })
}

t.test('a limiter may refuse with an error of its own', async (t) => {
  const { ingest, headers } = await openTestIngest()
  const admit = async () => {
    throw new IngestError('overloaded', 'The counters are full.', { retryAfterSeconds: 7 })
  }
  const { log, errors } = collectErrors()
  const edge = await fetchEdge?.open(ingest, { rateLimiter: { ...createRateLimiter(), admit }, log })
  t.match(await edge?.send({ headers, body: batchOf(1) }), {
    status: 503,
    headers: { 'retry-after': '7' },
    body: /The counters are full/,
  })
  t.strictSame(errors, [])
})

t.test(
  'an asynchronous limiter charges a scan in few calls, the same in total, and ends it at the limit',
  async (t) => {
    const { ingest, key } = await openTestIngest()
    for (let i = 0; i < 40; i++) await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100, `${i}-`)))
    const readBytes = { perSecond: 1, burst: 10_000_000 }
    const spentBy = async (rateLimiter: RateLimiter) => {
      const edge = await fetchEdge?.open(ingest, { rateLimiter })
      const { status, headers } = (await edge?.send(get('/v1/events?type=none', key))) ?? {}
      t.equal(status, 200)
      t.match(headers?.ratelimit, /, "read-bytes";r=\d+;t=\d+$/)
    }
    const own = createRateLimiter({ readBytes, now: () => 0 })
    const { slow, limiter, calls } = createSlowLimiter({ readBytes, now: () => 0 })
    await spentBy(own)
    await spentBy(slow)
    t.strictSame(limiter.headers(projectId, 'reads'), own.headers(projectId, 'reads'))
    t.ok(calls.length < 20, `${calls.length} calls for 4000 events`)

    const small = createSlowLimiter({ readBytes: { perSecond: 1, burst: 100_000 }, now: () => 0 })
    await spentBy(small.slow)
    const spent = small.calls.reduce((sum, bytes) => sum + bytes, 0)
    t.ok(spent < 200_000, `${spent} bytes scanned with a limit of 100,000`)
  },
)

t.test('rateLimits and rateLimiter exclude each other', async (t) => {
  const { ingest } = await openTestIngest()
  t.throws(() => createRouter(ingest, { rateLimits: {}, rateLimiter: createRateLimiter() }), {
    code: 'invalid-argument',
  })
})
