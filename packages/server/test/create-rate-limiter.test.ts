import { IngestError } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { createRateLimiter, projectsTrackedMax, type RateLimit, rateLimitsDefault } from '../src/create-rate-limiter.ts'

/** A bucket that fills up, in thousandths: the simplest thing that limits a rate. */
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
  fc.record({ passMs: fc.nat(3000), count: fc.option(fc.nat(100), { nil: undefined, freq: 3 }) }),
  { maxLength: 60 },
)

t.test('it decides as a bucket for requests and one for events do', async () => {
  fc.assert(
    fc.property(limitOf(1), limitOf(100), fc.nat(1e9), stepsOf, (requests, events, start, steps) => {
      let time = start
      const limiter = createRateLimiter({ requests, events, now: () => time })
      const buckets = { requests: createBucket(requests), events: createBucket(events) }
      for (const { passMs, count = 100 } of steps) {
        time += passMs
        buckets.requests.pass(passMs)
        buckets.events.pass(passMs)
        const requestWait = buckets.requests.waitSeconds(1)
        const wait =
          requestWait > 0 ? Math.max(requestWait, buckets.events.waitSeconds(100)) : buckets.events.waitSeconds(count)
        const refusal = refusalOf(() => {
          limiter.takeRequest('p')
          limiter.takeEvents('p', count)
        })
        if (wait === 0) {
          buckets.requests.take(1)
          buckets.events.take(count)
        }
        if ((refusal?.retryAfterSeconds ?? 0) !== wait) throw new Error(`${refusal?.retryAfterSeconds} is not ${wait}`)
        const left = `"requests";r=${buckets.requests.left()};`
        if (!limiter.headers('p').RateLimit.startsWith(left))
          throw new Error(`${limiter.headers('p').RateLimit} ${left}`)
      }
    }),
  )
})

t.test('waiting for as long as it says is enough, and is said in whole seconds from 1', async () => {
  fc.assert(
    fc.property(limitOf(1), limitOf(100), fc.double({ min: 0, max: 1e9, noNaN: true }), (requests, events, start) => {
      let time = start
      const limiter = createRateLimiter({ requests, events, now: () => time })
      const take = () =>
        refusalOf(() => {
          limiter.takeRequest('p')
          limiter.takeEvents('p', 100)
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

t.test('a refused request takes nothing', async (t) => {
  const limiter = createRateLimiter({
    requests: { perSecond: 1, burst: 2 },
    events: { perSecond: 1, burst: 100 },
    now: () => 0,
  })
  limiter.takeRequest('p')
  limiter.takeEvents('p', 60)
  for (let i = 0; i < 5; i++) {
    limiter.takeRequest('p')
    t.throws(() => limiter.takeEvents('p', 41), { code: 'rate-limited', retryAfterSeconds: 1 })
  }
  limiter.takeRequest('p')
  limiter.takeEvents('p', 40)
  t.throws(() => limiter.takeRequest('p'), { code: 'rate-limited' })
})

t.test('a batch without events is not held up by the limit of events', async () => {
  const limiter = createRateLimiter({ events: { perSecond: 1, burst: 100 }, now: () => 0 })
  limiter.takeEvents('p', 100)
  limiter.takeEvents('p', 0)
})

t.test('projects do not share', async (t) => {
  const limiter = createRateLimiter({ requests: { perSecond: 1, burst: 1 }, now: () => 0 })
  limiter.takeRequest('p')
  limiter.takeRequest('q')
  t.throws(() => limiter.takeRequest('p'), { code: 'rate-limited' })
})

t.test('the headers say the limits and what is left of them', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ now: () => time })
  const policy = '"requests";q=200;w=2, "events";q=100000;w=5'
  t.strictSame(limiter.headers('p'), {
    RateLimit: '"requests";r=200;t=0, "events";r=100000;t=0',
    'RateLimit-Policy': policy,
  })
  for (let i = 0; i < 50; i++) limiter.takeRequest('p')
  limiter.takeEvents('p', 30_000)
  t.strictSame(limiter.headers('p'), {
    RateLimit: '"requests";r=150;t=1, "events";r=70000;t=2',
    'RateLimit-Policy': policy,
  })
  time = 1500
  t.equal(limiter.headers('p').RateLimit, '"requests";r=200;t=0, "events";r=100000;t=0')
})

t.test('limits that are not whole and positive are refused when it is made', async (t) => {
  for (const perSecond of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    t.throws(() => createRateLimiter({ requests: { perSecond, burst: 1 } }), { code: 'invalid-argument' })
    t.throws(() => createRateLimiter({ requests: { perSecond: 1, burst: perSecond } }), { code: 'invalid-argument' })
  }
})

t.test('a burst of events that a full batch could never pass is refused when it is made', async (t) => {
  t.throws(() => createRateLimiter({ events: { perSecond: 1, burst: 99 } }), { code: 'invalid-argument' })
  createRateLimiter({ events: { perSecond: 1, burst: 100 } })
})

t.test('it remembers so many projects and no more, first of all forgetting those with full buckets', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ requests: { perSecond: 1, burst: 1 }, now: () => time })
  for (let i = 0; i < projectsTrackedMax; i++) limiter.takeRequest(`old-${i}`)
  time = 1000
  limiter.takeRequest('busy')
  t.equal(limiter.trackedCount(), 1)
  for (let i = 0; i < projectsTrackedMax * 2; i++) {
    limiter.takeRequest(`new-${i}`)
    if (limiter.trackedCount() > projectsTrackedMax) t.fail('too many')
  }
  t.throws(() => limiter.takeRequest(`new-${projectsTrackedMax * 2 - 1}`), { code: 'rate-limited' })
})

t.test('without limits of its own it has the usual ones, and a clock', async (t) => {
  const limiter = createRateLimiter()
  for (let i = 0; i < rateLimitsDefault.requests.burst; i++) limiter.takeRequest('p')
  t.match(limiter.headers('p')['RateLimit-Policy'], '"requests";q=200;w=2')
})

t.test('bytes of maps have a bucket of their own, which may be overdrawn by what was not announced', async (t) => {
  let time = 0
  const limiter = createRateLimiter({
    requests: { perSecond: 1, burst: 1 },
    mapBytes: { perSecond: 1000, burst: 5000 },
    now: () => time,
  })
  limiter.takeRequest('p')
  limiter.takeMapBytes('p', 4000)
  t.throws(() => limiter.takeMapBytes('p', 1001), { code: 'rate-limited', retryAfterSeconds: 1, limit: 1000 })
  limiter.takeMapBytes('p', 1000)
  limiter.takeMapBytes('q', 5000)
  limiter.oweMapBytes('p', 2500)
  t.strictSame(limiter.mapHeaders('p'), {
    RateLimit: '"map-bytes";r=0;t=8',
    'RateLimit-Policy': '"map-bytes";q=5000;w=5',
  })
  t.throws(() => limiter.takeMapBytes('p', 1), { code: 'rate-limited', retryAfterSeconds: 3 })
  time = 3000
  limiter.takeMapBytes('p', 1)
  t.equal(limiter.headers('p').RateLimit, '"requests";r=1;t=0, "events";r=100000;t=0')
})

t.test('a body that is larger than the burst passes when nothing is owed, and is paid for afterwards', async (t) => {
  let time = 0
  const limiter = createRateLimiter({ mapBytes: { perSecond: 10, burst: 100 }, now: () => time })
  limiter.takeMapBytes('p', 1000)
  t.throws(() => limiter.takeMapBytes('p', 1000), { code: 'rate-limited', retryAfterSeconds: 100 })
  time = 99_999
  t.throws(() => limiter.takeMapBytes('p', 1000), { code: 'rate-limited', retryAfterSeconds: 1 })
  time = 100_000
  limiter.takeMapBytes('p', 1000)
})

t.test('a rate in bytes is exact, however long the clock has run', async (t) => {
  let time = 2 ** 40
  const mapBytes = { perSecond: 33_554_432, burst: 268_435_456 }
  const limiter = createRateLimiter({ mapBytes, now: () => time })
  limiter.takeMapBytes('p', mapBytes.burst)
  for (let i = 0; i < 100; i++) {
    time += 7
    limiter.takeMapBytes('p', 0)
  }
  time += 1
  const back = Math.floor((mapBytes.perSecond * 701) / 1000)
  t.throws(() => limiter.takeMapBytes('p', back + 1), { code: 'rate-limited' })
  limiter.takeMapBytes('p', back)
})
