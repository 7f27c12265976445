import { batchBytesMax, IngestError } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { createRateLimiter, projectsTrackedMax } from '../../src/limits/rate-limiter.ts'
import { type RateLimit, rateLimitsDefault, readBytesMin } from '../../src/limits/rate-limits.ts'

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

t.test(
  'a refused request is not charged; a batch refused for its events is charged as a request and for its bytes',
  async (t) => {
    const limiter = createRateLimiter({
      requests: { perSecond: 1, burst: 3 },
      events: { perSecond: 1, burst: 100 },
      batchBytes: { perSecond: 100, burst: batchBytesMax },
      now: () => 0,
    })
    limiter.admit('p', { requests: 1, batchBytes: 1000 })
    limiter.admit('p', { events: 60 })
    const refusedForBytes = { code: 'rate-limited', retryAfterSeconds: 60, limit: 100 }
    for (let i = 0; i < 5; i++)
      t.throws(
        () => limiter.admit('p', { requests: 1, batchBytes: batchBytesMax }, { retry: { events: 100 } }),
        refusedForBytes,
      )
    for (let i = 0; i < 2; i++) {
      limiter.admit('p', { requests: 1, batchBytes: 500 })
      t.throws(() => limiter.admit('p', { events: 41 }), { code: 'rate-limited', retryAfterSeconds: 1 })
    }
    t.throws(() => limiter.admit('p', { requests: 1 }), { code: 'rate-limited', limit: 1 })
    limiter.admit('p', { events: 40 })
    t.match(
      limiter.headers('p', 'batches')?.RateLimit,
      `"requests";r=0;t=3, "events";r=0;t=100, "batch-bytes";r=${batchBytesMax - 2000};t=20`,
    )
  },
)

t.test('undeclared bytes of a batch are charged, even beyond the limit', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ batchBytes: { perSecond: 1000, burst: batchBytesMax }, now: () => time })
  limiter.admit('p', { requests: 1, batchBytes: 100 })
  limiter.charge('p', { batchBytes: batchBytesMax + 1900 })
  t.throws(() => limiter.admit('p', { requests: 1, batchBytes: 1 }), { code: 'rate-limited', retryAfterSeconds: 3 })
  time = 3000
  limiter.admit('p', { requests: 1, batchBytes: 1 })
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

t.test('an empty batch is admitted when the limit of events is used up', async () => {
  const limiter = createRateLimiter({ events: { perSecond: 1, burst: 100 }, now: () => 0 })
  limiter.admit('p', { events: 100 })
  limiter.admit('p', { events: 0 })
})

t.test('projects do not share a limit', async (t) => {
  const limiter = createRateLimiter({ requests: { perSecond: 1, burst: 1 }, now: () => 0 })
  limiter.admit('p', { requests: 1 })
  limiter.admit('q', { requests: 1 })
  t.throws(() => limiter.admit('p', { requests: 1 }), { code: 'rate-limited' })
})

t.test('the headers have the limits and what is left of them', async (t) => {
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

t.test('limits that are not positive whole numbers are refused at creation', async (t) => {
  for (const perSecond of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    t.throws(() => createRateLimiter({ requests: { perSecond, burst: 1 } }), { code: 'invalid-argument' })
    t.throws(() => createRateLimiter({ requests: { perSecond: 1, burst: perSecond } }), { code: 'invalid-argument' })
  }
})

t.test('a burst of events smaller than a full batch is refused at creation', async (t) => {
  t.throws(() => createRateLimiter({ events: { perSecond: 1, burst: 99 } }), { code: 'invalid-argument' })
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

t.test('each read and each upload is charged a request, a verification is not', async (t) => {
  let time = 0
  const limit = { perSecond: 2, burst: 3 }
  const limiter = createRateLimiter({ readRequests: limit, mapRequests: limit, now: () => time })
  const admitted = (admit: () => void) => {
    for (let count = 0; ; count++) {
      try {
        admit()
      } catch (error) {
        t.match(error, { code: 'rate-limited', limit: 2, retryAfterSeconds: 1 })
        return count
      }
    }
  }
  t.equal(
    admitted(() => limiter.admit('p', { readRequests: 1, readBytes: readBytesMin })),
    3,
  )
  t.equal(
    admitted(() => limiter.admit('p', { mapRequests: 1 })),
    3,
  )
  for (let i = 0; i < 10; i++) limiter.admit('p', { mapBytes: 1 }, { charged: { mapBytes: 0 } })
  time = 1000
  t.equal(
    admitted(() => limiter.admit('p', { readRequests: 1, readBytes: readBytesMin })),
    2,
  )
  t.equal(
    admitted(() => limiter.admit('p', { mapRequests: 1 })),
    2,
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
