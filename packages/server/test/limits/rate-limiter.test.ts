import { setImmediate as turn } from 'node:timers/promises'
import { batchBytesMax, IngestError } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import {
  type AdmitOptions,
  type Amounts,
  createRateLimiter,
  projectsTrackedMax,
  type RateLimiter,
} from '../../src/limits/rate-limiter.ts'
import { type RateLimit, rateLimitsDefault, readBytesMin } from '../../src/limits/rate-limits.ts'
import { createPublicRouter } from '../../src/public-router.ts'
import { byEachEdge, openFetch } from '../edges.ts'
import { get, put } from '../map-parts.ts'
import { batchOf, collectErrors, openTestIngest, projectId } from '../test-ingest.ts'

/** A token bucket, in thousandths: the simplest rate limiter. */
function createBucket({ perSecond, burst }: RateLimit) {
  let level = burst * 1000
  return {
    pass(ms: number) {
      level = Math.min(burst * 1000, level + ms * perSecond)
    },
    take(count: number) {
      level -= count * 1000
    },
    waitSeconds: (count: number) => Math.ceil(Math.max(0, count === 0 ? 0 : count * 1000 - level) / (perSecond * 1000)),
    left: () => Math.floor(level / 1000),
  }
}

function refusalOf(action: () => void): IngestError | undefined {
  try {
    action()
  } catch (error) {
    if (error instanceof IngestError) return error
    throw error
  }
  return undefined
}

const limitOf = (burstMin: number) =>
  fc.record({ perSecond: fc.integer({ min: 1, max: 50 }), burst: fc.integer({ min: burstMin, max: burstMin + 50 }) })
const stepsOf = fc.array(
  fc.record({
    passMs: fc.nat(3000),
    count: fc.option(fc.nat(100), { nil: undefined, freq: 3 }),
    bytes: fc.oneof(fc.nat(100), fc.nat(batchBytesMax)),
  }),
  { maxLength: 60 },
)

t.test('it decides like three token buckets: of requests, of events and of batch bytes', async () => {
  const bytesOf = limitOf(batchBytesMax)
  fc.assert(
    fc.property(
      limitOf(1),
      limitOf(100),
      bytesOf,
      fc.nat(1e9),
      stepsOf,
      (requests, events, batchBytes, start, steps) => {
        let time = start
        const limiter = createRateLimiter({ requests, events, batchBytes, now: () => time })
        const buckets = {
          requests: createBucket(requests),
          events: createBucket(events),
          bytes: createBucket(batchBytes),
        }
        for (const { passMs, count = 100, bytes } of steps) {
          time += passMs
          for (const bucket of Object.values(buckets)) bucket.pass(passMs)
          const waits = () => [buckets.requests.waitSeconds(1), buckets.bytes.waitSeconds(bytes)]
          let wait = Math.max(...waits())
          if (wait > 0) wait = Math.max(wait, buckets.events.waitSeconds(100))
          else {
            buckets.requests.take(1)
            buckets.bytes.take(bytes)
            wait = buckets.events.waitSeconds(count)
            if (wait > 0) wait = Math.max(wait, ...waits())
            else buckets.events.take(count)
          }
          const refusal = refusalOf(() => {
            limiter.admit('p', { requests: 1, batchBytes: bytes }, { retry: { events: 100 } })
            limiter.admit('p', { events: count }, { retry: { requests: 1, batchBytes: bytes } })
          })
          if ((refusal?.retryAfterSeconds ?? 0) !== wait)
            throw new Error(`${refusal?.retryAfterSeconds} is not ${wait}`)
          const left = `"requests";r=${buckets.requests.left()};`
          if (!limiter.headers('p', 'batches')?.RateLimit.startsWith(left))
            throw new Error(`${limiter.headers('p', 'batches')?.RateLimit} ${left}`)
        }
      },
    ),
  )
})

t.test('a retry after Retry-After is admitted; Retry-After is a whole number of seconds from 1', async () => {
  fc.assert(
    fc.property(limitOf(1), limitOf(100), fc.double({ min: 0, max: 1e9, noNaN: true }), (requests, events, start) => {
      let time = start
      const limiter = createRateLimiter({ requests, events, now: () => time })
      const take = () =>
        refusalOf(() => {
          limiter.admit('p', { requests: 1 }, { retry: { events: 100 } })
          limiter.admit('p', { events: 100 }, { retry: { requests: 1 } })
        })
      for (let i = 0; i < 30; i++) {
        const wait = take()?.retryAfterSeconds
        if (wait === undefined) continue
        if (!Number.isInteger(wait) || wait < 1) throw new Error(`${wait}`)
        time += wait * 1000
        if (take()) throw new Error('refused again')
      }
    }),
  )
})

t.test('the default limit of batch bytes follows the limit of events', async (t) => {
  const limiter = createRateLimiter({ events: { perSecond: 10, burst: 1000 } })
  t.match(limiter.headers('p', 'batches')?.['RateLimit-Policy'], '"batch-bytes";q=512000;qu="content-bytes";w=100')
  t.match(createRateLimiter({ events: { perSecond: 10, burst: 100 } }).headers('p', 'batches'), {
    RateLimit: `"batch-bytes";r=${batchBytesMax};t=0`,
  })
  t.throws(() => createRateLimiter({ batchBytes: { perSecond: 1, burst: batchBytesMax - 1 } }), {
    code: 'invalid-argument',
  })
})

t.test('a read is charged a minimum at its start and its bytes as it goes, until the budget is used up', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ readBytes: { perSecond: 1000, burst: 10_000 }, now: () => time })
  limiter.admit('p', { readRequests: 1, readBytes: readBytesMin })
  t.equal(limiter.charge('p', { readBytes: 10_000 - readBytesMin - 1 }), true)
  t.equal(limiter.charge('p', { readBytes: 1 }), false)
  t.strictSame(limiter.headers('p', 'reads'), {
    RateLimit: '"read-requests";r=399;t=1, "read-bytes";r=0;t=10',
    'RateLimit-Policy': '"read-requests";q=400;qu="requests";w=4, "read-bytes";q=10000;qu="content-bytes";w=10',
  })
  const refused = refusalOf(() => limiter.admit('p', { readRequests: 1, readBytes: readBytesMin }))
  t.match(refused, { code: 'rate-limited', limit: 1000, retryAfterSeconds: 5 })
  time += (refused?.retryAfterSeconds ?? 0) * 1000
  limiter.admit('p', { readRequests: 1, readBytes: readBytesMin })
  limiter.admit('q', { readRequests: 1, readBytes: readBytesMin })
  t.match(limiter.headers('p', 'batches')?.RateLimit, '"requests";r=200')
})

t.test('the headers have the limits and the remaining quotas', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ now: () => time })
  const policy =
    '"requests";q=200;qu="requests";w=2, "events";q=100000;qu="events";w=5, "batch-bytes";q=51200000;qu="content-bytes";w=5'
  t.strictSame(limiter.headers('p', 'batches'), {
    RateLimit: '"requests";r=200;t=0, "events";r=100000;t=0, "batch-bytes";r=51200000;t=0',
    'RateLimit-Policy': policy,
  })
  for (let i = 0; i < 50; i++) limiter.admit('p', { requests: 1, batchBytes: 1000 })
  limiter.admit('p', { events: 30_000 })
  t.strictSame(limiter.headers('p', 'batches'), {
    RateLimit: '"requests";r=150;t=1, "events";r=70000;t=2, "batch-bytes";r=51150000;t=1',
    'RateLimit-Policy': policy,
  })
  time = 1500
  t.equal(
    limiter.headers('p', 'batches')?.RateLimit,
    '"requests";r=200;t=0, "events";r=100000;t=0, "batch-bytes";r=51200000;t=0',
  )
})

t.test('limits that are not positive whole numbers, or too small for a batch, are refused at creation', async (t) => {
  for (const perSecond of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    t.throws(() => createRateLimiter({ requests: { perSecond, burst: 1 } }), { code: 'invalid-argument' })
    t.throws(() => createRateLimiter({ requests: { perSecond: 1, burst: perSecond } }), { code: 'invalid-argument' })
  }
  t.throws(
    () => createRateLimiter({ events: { perSecond: 1, burst: 99 } }),
    { code: 'invalid-argument' },
    'a full batch',
  )
  createRateLimiter({ events: { perSecond: 1, burst: 100 } })
})

t.test('it tracks a bounded number of projects and evicts idle ones first', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ requests: { perSecond: 1, burst: 1 }, now: () => time })
  for (let i = 0; i < projectsTrackedMax; i++) limiter.admit(`old-${i}`, { requests: 1 })
  time = 1000
  limiter.admit('busy', { requests: 1 })
  t.equal(limiter.trackedCount(), 1)
  for (let i = 0; i < projectsTrackedMax * 2; i++) {
    limiter.admit(`new-${i}`, { requests: 1 })
    if (limiter.trackedCount() > projectsTrackedMax) t.fail('too many')
  }
  t.throws(() => limiter.admit(`new-${projectsTrackedMax * 2 - 1}`, { requests: 1 }), { code: 'rate-limited' })
})

t.test('without options it has the default limits and a clock', async (t) => {
  const limiter = createRateLimiter()
  for (let i = 0; i < rateLimitsDefault.requests.burst; i++) limiter.admit('p', { requests: 1 })
  t.match(limiter.headers('p', 'batches')?.['RateLimit-Policy'], '"requests";q=200;qu="requests";w=2')
})

t.test('map bytes have a limit of their own; undeclared bytes are charged, even beyond it', async (t) => {
  let time = 0
  const limiter = createRateLimiter({
    requests: { perSecond: 1, burst: 1 },
    mapBytes: { perSecond: 1000, burst: 5000 },
    now: () => time,
  })
  limiter.admit('p', { requests: 1 })
  limiter.admit('p', { mapRequests: 1, mapBytes: 4000 })
  t.throws(() => limiter.admit('p', { mapRequests: 1, mapBytes: 1001 }), {
    code: 'rate-limited',
    retryAfterSeconds: 1,
    limit: 1000,
  })
  limiter.admit('p', { mapRequests: 1, mapBytes: 1000 })
  limiter.admit('q', { mapRequests: 1, mapBytes: 5000 })
  limiter.charge('p', { mapBytes: 2500 })
  t.strictSame(limiter.headers('p', 'maps'), {
    RateLimit: '"map-requests";r=998;t=1, "map-bytes";r=0;t=8',
    'RateLimit-Policy': '"map-requests";q=1000;qu="requests";w=10, "map-bytes";q=5000;qu="content-bytes";w=5',
  })
  t.throws(() => limiter.admit('p', { mapRequests: 1, mapBytes: 1 }), { code: 'rate-limited', retryAfterSeconds: 3 })
  time = 3000
  limiter.admit('p', { mapRequests: 1, mapBytes: 1 })
  t.equal(
    limiter.headers('p', 'batches')?.RateLimit,
    '"requests";r=1;t=0, "events";r=100000;t=0, "batch-bytes";r=51200000;t=0',
  )
})

t.test('a body larger than the burst is admitted when the bucket is empty, and charged in full', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ mapBytes: { perSecond: 10, burst: 100 }, now: () => time })
  limiter.admit('p', { mapRequests: 1, mapBytes: 1000 })
  t.throws(() => limiter.admit('p', { mapRequests: 1, mapBytes: 1000 }), {
    code: 'rate-limited',
    retryAfterSeconds: 100,
  })
  time = 99_999
  t.throws(() => limiter.admit('p', { mapRequests: 1, mapBytes: 1000 }), { code: 'rate-limited', retryAfterSeconds: 1 })
  time = 100_000
  limiter.admit('p', { mapRequests: 1, mapBytes: 1000 })
})

t.test('a rate in bytes is exact, however high the clock', async (t) => {
  let time = 2 ** 40
  const mapBytes = { perSecond: 33_554_432, burst: 268_435_456 }
  const limiter = createRateLimiter({ mapBytes, now: () => time })
  limiter.admit('p', { mapRequests: 1, mapBytes: mapBytes.burst })
  for (let i = 0; i < 100; i++) {
    time += 7
    limiter.admit('p', { mapRequests: 1 })
  }
  time += 1
  const back = Math.floor((mapBytes.perSecond * 701) / 1000)
  t.throws(() => limiter.admit('p', { mapRequests: 1, mapBytes: back + 1 }), { code: 'rate-limited' })
  limiter.admit('p', { mapRequests: 1, mapBytes: back })
})

t.test('the limits are divided by the number of servers, and follow it', async (t) => {
  let time = 0
  let servers = 1
  const limits = {
    requests: { perSecond: 10, burst: 20 },
    events: { perSecond: 100, burst: 150 },
    batchBytes: { perSecond: 1000, burst: batchBytesMax * 4 },
    mapBytes: { perSecond: 1, burst: 1 },
    now: () => time,
  }
  const limiter = createRateLimiter(limits, () => servers)
  const policy = () => limiter.headers('p', 'batches')['RateLimit-Policy'].replaceAll(/;qu="[a-z-]+"/g, '')
  t.equal(policy(), `"requests";q=20;w=2, "events";q=150;w=2, "batch-bytes";q=${batchBytesMax * 4};w=1049`)
  servers = 2
  t.equal(policy(), `"requests";q=10;w=2, "events";q=100;w=2, "batch-bytes";q=${batchBytesMax * 2};w=1049`)
  for (let i = 0; i < 10; i++) limiter.admit('p', { requests: 1 })
  t.throws(() => limiter.admit('p', { requests: 1 }), {
    limit: 5,
    retryAfterSeconds: 1,
    message: 'The project is limited to 5 requests a second, with bursts of 10: retry after 1 s.',
  })
  limiter.admit('p', { events: 100 })
  time = 1000
  t.equal(limiter.headers('p', 'batches').RateLimit.split(', "b')[0], '"requests";r=5;t=1, "events";r=50;t=1')
  servers = 3
  t.equal(
    policy(),
    `"requests";q=6;w=2, "events";q=100;w=4, "batch-bytes";q=${Math.floor((batchBytesMax * 4) / 3)};w=1050`,
  )
  t.equal(limiter.headers('p', 'batches').RateLimit.split(', "b')[0], '"requests";r=1;t=2, "events";r=50;t=2')
  limiter.admit('p', { requests: 1 })
  t.throws(() => limiter.admit('p', { requests: 1 }), { code: 'rate-limited', limit: 3 })
  servers = 1
  for (let i = 0; i < 14; i++) limiter.admit('p', { requests: 1 })
  t.throws(() => limiter.admit('p', { requests: 1 }), { code: 'rate-limited', limit: 10 })
  servers = 1000
  t.equal(policy(), `"requests";q=1;w=1, "events";q=100;w=100, "batch-bytes";q=${batchBytesMax};w=${batchBytesMax}`)
  t.match(limiter.headers('p', 'maps')['RateLimit-Policy'], ', "map-bytes";q=1;qu="content-bytes";w=1')
})

/** A limiter whose methods wait, as for another process; `calls` has the charged bytes of reads. */
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

const publication = { placeId: 'p', buildId: 'b', map: 1 }

byEachEdge('a limiter of promises limits batches, maps and reads', async (t, open) => {
  const { slow } = createSlowLimiter({
    requests: { perSecond: 1, burst: 2 },
    events: { perSecond: 1, burst: 100 },
    mapBytes: { perSecond: 1, burst: 100 },
    readBytes: { perSecond: 1, burst: 5000 },
    now: () => 0,
  })
  const { key, headers, storedCount, send } = await open({ rateLimiter: slow })
  const large = { ...publication, map: 'x'.repeat(200) }
  const first = await send({ headers, body: batchOf(60) })
  t.match(first, { status: 202, headers: { ratelimit: /^"requests";r=1;t=1, "events";r=40;t=60, / } })
  const tooManyEvents = await send({ headers, body: batchOf(41, 'f-') })
  t.match(tooManyEvents, { status: 429, body: /rate-limited/ })
  t.match(await send({ headers, body: batchOf(1) }), { status: 429, body: /requests a second/ })
  t.equal(await storedCount(), 60)
  t.match(await send(put('/v1/maps', key, large)), { status: 201 })
  t.match(await send(put('/v1/maps', key, large)), { status: 429 })
  t.match(await send(get('/v1/events', key)), { status: 200 })
  t.match(await send(get('/v1/events', key)), { status: 429, headers: { ratelimit: '"read-bytes";r=0;' } })
})

byEachEdge('a limiter that fails is a 503, and nothing is admitted', async (t, open) => {
  const secret = new Error('redis://:opensesame@counters')
  for (const [method, limit, sentKind] of [
    ['admit', 'requests', 'batch'],
    ['charge', 'batchBytes', 'batch'],
    ['admit', 'events', 'batch'],
    ['admit', 'mapRequests', 'map'],
    ['charge', 'mapBytes', 'map'],
    ['admit', 'readRequests', 'read'],
    ['charge', 'readBytes', 'read'],
  ] as const) {
    for (const fail of [
      () => {
        throw secret
      },
      () => Promise.reject(secret),
    ]) {
      const { log, errors } = collectErrors()
      const limiter = createRateLimiter({ now: () => 0 })
      const failing = {
        ...limiter,
        [method]: (id: string, amounts: Amounts, options?: AdmitOptions) =>
          limit in amounts ? fail() : limiter[method](id, amounts, options),
      }
      const { ingest, key, headers, storedCount, send } = await open({ rateLimiter: failing, log })
      await ingest.project(projectId).submitBatch(Buffer.from(batchOf(1, 'stored-')))
      const sent = {
        batch: { headers, body: batchOf(1) },
        map: put('/v1/maps', key, publication),
        read: get('/v1/events', key),
      }[sentKind]
      const response = await send(sent)
      t.match(response, { status: 503, headers: { 'retry-after': '1', ratelimit: /r=/ } }, limit)
      t.match(response.json, { code: 'overloaded', retryable: true })
      t.notMatch(response.body, /opensesame|counters/)
      t.match(errors, [{ err: secret }])
      t.equal(await storedCount(), 1)
      t.strictSame((await ingest.project(projectId).listMaps()).maps, [])
    }
  }
})

byEachEdge('a response stands if its rate limit headers fail', async (t, open) => {
  const { log, errors } = collectErrors()
  const rateLimiter = { ...createRateLimiter(), headers: () => Promise.reject(new Error('gone')) }
  const { headers, storedCount, send } = await open({ rateLimiter, log })
  const response = await send({ headers, body: batchOf(1) })
  t.match(response, { status: 202 })
  t.notOk('ratelimit' in response.headers)
  t.equal(errors.length, 1)
  t.equal(await storedCount(), 1)
})

t.test('a limiter may refuse with an error of its own', async (t) => {
  const admit = async () => {
    throw new IngestError('overloaded', 'The counters are full.', { retryAfterSeconds: 7 })
  }
  const { log, errors } = collectErrors()
  const { headers, send } = await openFetch(t, { rateLimiter: { ...createRateLimiter(), admit }, log })
  t.match(await send({ headers, body: batchOf(1) }), {
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
      const { send } = await openFetch(t, { rateLimiter }, ingest)
      const { status, headers } = await send(get('/v1/events?type=none', key))
      t.equal(status, 200)
      t.match(headers.ratelimit, /, "read-bytes";r=\d+;t=\d+$/)
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
  t.throws(() => createPublicRouter(ingest, { rateLimits: {}, rateLimiter: createRateLimiter() }), {
    code: 'invalid-argument',
  })
})
