import { type ErrorCode, errorTable, IngestError } from '@ingest/core'
import t from 'tap'
import {
  type AttemptTimes,
  backoffMsBase,
  backoffMsMax,
  createBackoff,
  createRetry,
  type RetryOptions,
} from '../../src/http/retry.ts'

const limits = { retries: 4, tryTimeoutMs: 30_000, timeoutMs: 120_000 }

/** A retry with a clock that only its pauses advance. */
function open(options: RetryOptions = {}) {
  const pauses: number[] = []
  let time = 0
  const retry = createRetry(
    { ...limits, ...options },
    {
      now: () => time,
      random: () => 0.5,
      sleep: async (ms) => {
        time += ms
        pauses.push(ms)
      },
    },
  )
  const spend = (ms: number) => {
    time += ms
  }
  return { retry, pauses, spend }
}

/** Fails once with each error, then succeeds. */
function failing(...errors: unknown[]) {
  const timeouts: number[] = []
  const attempt = async ({ timeoutMs }: AttemptTimes) => {
    timeouts.push(timeoutMs)
    if (errors.length > 0) throw errors.shift()
    return 'done'
  }
  return { attempt, timeouts }
}

/** The error of a response with this code. */
const failure = (code: ErrorCode, retryAfterSeconds?: number) =>
  new IngestError(code, code, {
    status: errorTable[code].status,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  })

t.test('a retryable error is retried with growing pauses', async (t) => {
  const { retry, pauses } = open()
  const { attempt, timeouts } = failing(...Array(4).fill(failure('overloaded')))
  t.equal(await retry.run(attempt), 'done')
  t.strictSame(pauses, [500, 1000, 2000, 4000])
  t.equal(timeouts.length, 5)
})

t.test('a pause is never shorter than Retry-After, and onRetry is called before each', async (t) => {
  const calls: unknown[] = []
  const onRetry = (error: IngestError, pauseMs: number) => calls.push([error.code, pauseMs])
  const { retry, pauses } = open({ retries: 2, onRetry })
  await t.rejects(retry.run(failing(...Array(3).fill(failure('overloaded', 3))).attempt))
  t.strictSame(calls, [
    ['overloaded', 3500],
    ['overloaded', 4000],
  ])
  t.strictSame(pauses, [3500, 4000])
})

t.test('the last error is thrown when no retry is left', async (t) => {
  const { retry, pauses } = open({ retries: 1 })
  const errors = () => [failure('overloaded'), failure('draining'), failure('disk-full')]
  await t.rejects(retry.run(failing(...errors()).attempt), { code: 'draining' })
  t.equal(pauses.length, 1)
  await t.rejects(open({ retries: 0 }).retry.run(failing(...errors()).attempt), { code: 'overloaded' })
  await t.rejects(retry.run(failing(...errors()).attempt, { retries: 0 }), { code: 'overloaded' }, 'of the call')
  t.equal(await retry.run(failing(...errors()).attempt, { retries: 3 }), 'done')
})

t.test('a bug is thrown at once', async (t) => {
  const { retry, pauses } = open()
  const error = new TypeError('a bug')
  t.equal(await retry.run(failing(error).attempt).catch((thrown: unknown) => thrown), error)
  t.strictSame(pauses, [])
})

t.test('a pause beyond the deadline is not started', async (t) => {
  const { retry, pauses } = open()
  await t.rejects(retry.run(failing(failure('rate-limited', 120)).attempt), {
    code: 'rate-limited',
    retryAfterSeconds: 120,
  })
  t.strictSame(pauses, [])
})

t.test('an attempt ends at the deadline of the call', async (t) => {
  const { retry, spend } = open({ timeoutMs: 50_000 })
  const { attempt, timeouts } = failing(failure('request-timeout'), failure('request-timeout'))
  await retry.run(async (times) => {
    spend(24_000)
    return attempt(times)
  })
  t.strictSame(timeouts, [30_000, 25_500, 500])
})

t.test('a signal aborts a pause', async (t) => {
  const controller = new AbortController()
  const retry = createRetry(limits, { random: () => 0.999 })
  const reason = new Error('aborted by the test')
  const attempt = async () => {
    setImmediate(() => controller.abort(reason))
    throw failure('rate-limited', 60)
  }
  await t.rejects(retry.run(attempt, { signal: controller.signal }), reason)
})

t.test('close ends a pause with its error, and waits for attempts in flight', async (t) => {
  const retry = createRetry(limits)
  const rejected = t.rejects(retry.run(failing(failure('rate-limited', 60)).attempt), { code: 'rate-limited' })
  let finish = (_: string) => {}
  const running = retry.run(
    () =>
      new Promise<string>((resolve) => {
        finish = resolve
      }),
  )
  await new Promise((resolve) => setImmediate(resolve))
  let isClosed = false
  const closed = retry.close().then(() => {
    isClosed = true
  })
  await rejected
  t.equal(isClosed, false)
  finish('done')
  t.equal(await running, 'done')
  await closed
  await t.rejects(retry.run(failing().attempt), { code: 'store-closed' })
  await t.rejects(
    retry
      .runStream(async function* () {})
      [Symbol.asyncIterator]()
      .next(),
    { code: 'store-closed' },
  )
})

t.test('any number of calls may pause at a time, without a warning of Node about a leak', async (t) => {
  const warnings: Error[] = []
  const warn = (warning: Error) => warnings.push(warning)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  const retry = createRetry(limits, { random: () => 0.001 })
  const results = Array.from({ length: 50 }, () => retry.run(failing(failure('overloaded')).attempt))
  t.strictSame(await Promise.all(results), Array(50).fill('done'))
  t.strictSame(warnings, [])
})

t.test('a stream continues where it broke, and each item resets the limits', async (t) => {
  const { retry, pauses, spend } = open({ retries: 2 })
  let at = 0
  const timeouts: number[] = []
  async function* attempt({ timeoutMs }: AttemptTimes) {
    timeouts.push(timeoutMs)
    if (pauses.length % 2 === 0) throw failure('connection-failed')
    for (let i = 0; i < 2 && at < 10; i++) {
      spend(100_000)
      yield at++
    }
    if (at < 10) throw failure('connection-failed')
  }
  const items = []
  for await (const item of retry.runStream(attempt)) items.push(item)
  t.strictSame(items, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  t.strictSame(pauses, [500, 500, 1000, 500, 1000, 500, 1000, 500, 1000])
  t.ok(timeouts.every((ms) => ms === 30_000))
})

t.test('a stream without progress throws', async (t) => {
  const { retry, pauses } = open({ retries: 2 })
  const items: number[] = []
  async function read() {
    async function* attempt() {
      if (items.length === 0) yield 1
      throw failure('connection-failed')
    }
    for await (const item of retry.runStream(attempt)) items.push(item)
  }
  await t.rejects(read(), { code: 'connection-failed' })
  t.strictSame([items, pauses], [[1], [500, 1000]])
})

t.test('a reader that stops early ends the attempt', async (t) => {
  let isOver = false
  async function* attempt() {
    try {
      for (;;) yield 1
    } finally {
      isOver = true
    }
  }
  for await (const _ of open().retry.runStream(attempt)) break
  t.equal(isOver, true)
})

const ranges = [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]

t.test('a pause is random, up to a bound that doubles from 1 s to 60 s', async (t) => {
  t.strictSame([backoffMsBase, backoffMsMax], [1000, 60_000])
  for (const share of [0, 0.25, 0.999]) {
    const backoff = createBackoff({ random: () => share })
    t.strictSame(
      ranges.map(() => backoff.next()),
      ranges.map((range) => share * range),
    )
  }
})

t.test('the floor of the server is added to the random pause, also above the bound of the backoff', async (t) => {
  for (const share of [0, 0.999]) {
    for (const floorMs of [7000, 120_000])
      t.equal(createBackoff({ random: () => share }).next(floorMs), floorMs + share * 1000)
  }
})

t.test('after reset, the first pause is next; Math.random is the default', async (t) => {
  const backoff = createBackoff()
  const pauses = Array.from({ length: 20 }, () => {
    backoff.reset()
    return backoff.next()
  })
  t.ok(pauses.every((pause) => pause >= 0 && pause < 1000))
  t.ok(new Set(pauses).size > 1)
})
