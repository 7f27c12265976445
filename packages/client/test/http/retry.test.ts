import { type ErrorCode, errorCodes, IngestError } from '@ingest/core'
import { statusByCode } from '@ingest/server'
import t from 'tap'
import { errorFromResponse } from '../../src/http/error-from-response.ts'
import { backoffMsBase, backoffMsMax, createBackoff, createRetry, type RetryLimits } from '../../src/http/retry.ts'

const limits = { retries: 4, tryTimeoutMs: 30_000, timeoutMs: 120_000 }

/** A retrier with a clock that stands still but for its pauses. */
function open(options: Partial<RetryLimits> = {}) {
  const pauses: number[] = []
  let time = 0
  const retrier = createRetry(
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
  return { retrier, pauses, spend }
}

/** Fails so often with these, one after another, and then succeeds. */
function failing(...errors: unknown[]) {
  const patience: number[] = []
  const attempt = async (timeoutMs: number) => {
    patience.push(timeoutMs)
    if (errors.length > 0) throw errors.shift()
    return 'done'
  }
  return { attempt, patience }
}

/** What a server answers with this code. */
const refusal = (code: ErrorCode, retryAfterSeconds?: number) =>
  new IngestError(code, code, {
    status: statusByCode[code],
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  })

t.test('what may go away is tried again, with growing pauses', async (t) => {
  const { retrier, pauses } = open()
  const { attempt, patience } = failing(...Array(4).fill(refusal('overloaded')))
  t.equal(await retrier.run(attempt), 'done')
  t.strictSame(pauses, [500, 1000, 2000, 4000])
  t.equal(patience.length, 5)
})

t.test('each retry is told of before its pause, and nothing else is', async (t) => {
  const told: unknown[] = []
  const onRetry = (error: IngestError, pauseMs: number) => told.push([error.code, pauseMs])
  const { retrier, pauses } = open({ retries: 2, onRetry })
  await t.rejects(retrier.run(failing(...Array(3).fill(refusal('overloaded', 3))).attempt))
  t.strictSame(told, [
    ['overloaded', 3500],
    ['overloaded', 4000],
  ])
  t.strictSame(pauses, [3500, 4000])
})

t.test('the last refusal is thrown when no retry is left', async (t) => {
  const { retrier, pauses } = open({ retries: 1 })
  const { attempt } = failing(refusal('overloaded'), refusal('draining'), refusal('disk-full'))
  await t.rejects(retrier.run(attempt), { code: 'draining' })
  t.equal(pauses.length, 1)
  const never = open({ retries: 0 })
  await t.rejects(never.retrier.run(failing(refusal('overloaded')).attempt), { code: 'overloaded' })
  t.strictSame(never.pauses, [])
})

t.test('the status alone decides whether a call is retried, whatever the code says', async (t) => {
  const retried = new Set<number>()
  for (let status = 300; status <= 599; status++) {
    for (const code of errorCodes) {
      const headers = { 'content-type': 'application/problem+json' }
      const error = errorFromResponse({ status, headers, body: JSON.stringify({ code, detail: 'By a gateway.' }) }, 0)
      const { retrier, pauses } = open({ retries: 1 })
      const isDone = (await retrier.run(failing(error).attempt).catch((thrown: unknown) => thrown)) === 'done'
      if (isDone) retried.add(status)
      if (isDone !== retried.has(status) || isDone !== (pauses.length === 1)) t.fail(`${status} ${code}`)
    }
  }
  t.strictSame([...retried], [408, 429, ...Array.from({ length: 100 }, (_, i) => 500 + i)])
})

t.test('without a response, only a failed connection and a time-out are retried', async (t) => {
  const retried: ErrorCode[] = []
  for (const code of errorCodes) {
    const { retrier } = open()
    const error = new IngestError(code, '')
    const outcome = await retrier.run(failing(error).attempt).catch((thrown: unknown) => thrown)
    if (outcome === 'done') retried.push(code)
    else t.equal(outcome, error)
  }
  t.strictSame(retried, ['connection-failed', 'request-timeout'])
})

t.test('a bug is thrown at once', async (t) => {
  for (const error of [new TypeError('a bug'), 'text']) {
    const { retrier, pauses } = open()
    t.equal(await retrier.run(failing(error).attempt).catch((thrown: unknown) => thrown), error)
    t.strictSame(pauses, [])
  }
})

t.test('Retry-After is waited for', async (t) => {
  const { retrier, pauses } = open()
  await retrier.run(failing(refusal('rate-limited', 7), refusal('rate-limited', 0)).attempt)
  t.strictSame(pauses, [7500, 1000])
})

t.test('a pause that would go on for too long is not begun', async (t) => {
  const { retrier, pauses } = open()
  await t.rejects(retrier.run(failing(refusal('rate-limited', 120)).attempt), {
    code: 'rate-limited',
    retryAfterSeconds: 120,
  })
  t.strictSame(pauses, [])
})

t.test('a try has no more time than all of them have left', async (t) => {
  const { retrier, spend } = open({ timeoutMs: 50_000 })
  const { attempt, patience } = failing(refusal('request-timeout'), refusal('request-timeout'))
  await retrier.run(async (timeoutMs) => {
    spend(24_000)
    return attempt(timeoutMs)
  })
  t.strictSame(patience, [30_000, 25_500, 500])
})

t.test('a signal ends a pause', async (t) => {
  const controller = new AbortController()
  const retrier = createRetry(limits, { random: () => 0.999 })
  const reason = new Error('no longer wanted')
  const attempt = async () => {
    setImmediate(() => controller.abort(reason))
    throw refusal('rate-limited', 60)
  }
  await t.rejects(retrier.run(attempt, { signal: controller.signal }), reason)
})

t.test('closing ends a pause with the refusal before it, and waits for the tries', async (t) => {
  const retrier = createRetry(limits)
  const refused = t.rejects(retrier.run(failing(refusal('rate-limited', 60)).attempt), { code: 'rate-limited' })
  let finish = (_: string) => {}
  const running = retrier.run(
    () =>
      new Promise<string>((resolve) => {
        finish = resolve
      }),
  )
  await new Promise((resolve) => setImmediate(resolve))
  let isClosed = false
  const closed = retrier.close().then(() => {
    isClosed = true
  })
  await refused
  t.equal(isClosed, false)
  finish('done')
  t.equal(await running, 'done')
  await closed
  await t.rejects(retrier.run(failing().attempt), { code: 'store-closed' })
  await t.rejects(
    retrier
      .runStream(async function* () {})
      [Symbol.asyncIterator]()
      .next(),
    { code: 'store-closed' },
  )
})

t.test('closing with nothing to wait for is at once', async () => {
  await createRetry(limits).close()
})

t.test('a stream goes on where it broke, and what arrives begins the limits anew', async (t) => {
  const { retrier, pauses, spend } = open({ retries: 2 })
  let at = 0
  const patience: number[] = []
  async function* attempt(timeoutMs: number) {
    patience.push(timeoutMs)
    if (pauses.length % 2 === 0) throw refusal('connection-failed')
    for (let i = 0; i < 2 && at < 10; i++) {
      spend(100_000)
      yield at++
    }
    if (at < 10) throw refusal('connection-failed')
  }
  const items = []
  for await (const item of retrier.runStream(attempt)) items.push(item)
  t.strictSame(items, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  t.strictSame(pauses, [500, 500, 1000, 500, 1000, 500, 1000, 500, 1000])
  t.ok(patience.every((ms) => ms === 30_000))
})

t.test('a stream that does not get on is given up', async (t) => {
  const { retrier, pauses } = open({ retries: 2 })
  const items: number[] = []
  async function read() {
    async function* attempt() {
      if (items.length === 0) yield 1
      throw refusal('connection-failed')
    }
    for await (const item of retrier.runStream(attempt)) items.push(item)
  }
  await t.rejects(read(), { code: 'connection-failed' })
  t.strictSame([items, pauses], [[1], [500, 1000]])
})

t.test('a reader that leaves ends the attempt', async (t) => {
  let isOver = false
  async function* attempt() {
    try {
      for (;;) yield 1
    } finally {
      isOver = true
    }
  }
  for await (const _ of open().retrier.runStream(attempt)) break
  t.equal(isOver, true)
})

t.test('a call may ask for other retries than the rest', async (t) => {
  const { retrier, pauses } = open()
  await t.rejects(retrier.run(failing(refusal('overloaded')).attempt, { retries: 0 }), { code: 'overloaded' })
  t.strictSame(pauses, [])
  t.equal(await retrier.run(failing(...Array(6).fill(refusal('overloaded'))).attempt, { retries: 6 }), 'done')
})

const ranges = [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]

t.test('a pause is anything from nothing to a bound that doubles from 1 s to 60 s', async (t) => {
  t.strictSame([backoffMsBase, backoffMsMax], [1000, 60_000])
  for (const share of [0, 0.25, 0.999]) {
    const backoff = createBackoff({ random: () => share })
    t.strictSame(
      ranges.map(() => backoff.next()),
      ranges.map((range) => share * range),
    )
  }
})

t.test('what the server asks for comes first, whatever chance says', async (t) => {
  const soon = createBackoff({ random: () => 0 })
  const late = createBackoff({ random: () => 0.999 })
  t.equal(soon.next(7000), 7000)
  t.equal(late.next(7000), 7999)
  t.equal(soon.next(120_000), 120_000, 'more than a pause of its own may be')
})

t.test('after a success it begins again', async (t) => {
  const backoff = createBackoff({ random: () => 1 })
  backoff.next()
  backoff.next()
  backoff.reset()
  t.equal(backoff.next(), 1000)
})

t.test('without a source of chance it takes a real one', async (t) => {
  const pauses = Array.from({ length: 20 }, () => createBackoff().next())
  t.ok(pauses.every((pause) => pause >= 0 && pause < 1000))
  t.ok(new Set(pauses).size > 1)
})
