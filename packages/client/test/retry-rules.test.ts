import { isDeepStrictEqual } from 'node:util'
import { type ErrorCode, errorCodes, IngestError } from '@ingest/core'
import t from 'tap'
import { errorFromResponse } from '../src/http/error-from-response.ts'
import { createRetry } from '../src/http/retry.ts'
import { decideNext, type Next } from '../src/sender/decide-next.ts'

/** The statuses that have a code of their own, and whether a call is retried. */
const statuses: [status: number, code: ErrorCode, isRetried: boolean][] = [
  [301, 'unexpected-response', false],
  [304, 'unexpected-response', false],
  [400, 'malformed-request', false],
  [401, 'unauthorized', false],
  [403, 'unauthorized', false],
  [404, 'not-found', false],
  [405, 'method-not-allowed', false],
  [408, 'request-timeout', true],
  [409, 'unexpected-response', false],
  [412, 'precondition-failed', false],
  [413, 'body-too-large', false],
  [416, 'range-not-satisfiable', false],
  [429, 'rate-limited', true],
  [431, 'headers-too-large', false],
  [500, 'internal-error', true],
  [502, 'connection-failed', true],
  [503, 'overloaded', true],
  [504, 'connection-failed', true],
  [599, 'overloaded', true],
]

/** The next action of a sender after these statuses; after any other status, it backs off. */
const nextAfter: Readonly<Record<number, Next>> = {
  400: { action: 'drop', reason: 'bad_request' },
  401: { action: 'pause', ms: 300_000 },
  403: { action: 'pause', ms: 300_000 },
  413: { action: 'drop', reason: 'too_large' },
}
const backOff = (floorMs = 0): Next => ({ action: 'back-off', floorMs })

/** Whether a client sends a request again after this error. */
async function isRetried(error: unknown): Promise<boolean> {
  const retry = createRetry({ retries: 1, tryTimeoutMs: 1, timeoutMs: 1e6 }, { sleep: async () => {} })
  let attempts = 0
  const thrown = await retry
    .run(async () => {
      if (++attempts === 1) throw error
    })
    .catch((thrown: unknown) => thrown)
  return attempts === 2 && thrown === undefined
}

t.test('a response without a problem document, or with an unknown code, has the code of its status', async (t) => {
  for (const [status, code, isRetryable] of statuses) {
    const page = errorFromResponse({ status, headers: { 'content-type': 'text/html' }, body: '<html>' }, 0)
    t.match(page, { code, status, retryable: isRetryable })
    t.equal(await isRetried(page), isRetryable, String(status))
    if (status < 400) continue
    const headers = { 'content-type': 'application/problem+json' }
    const body = JSON.stringify({ code: 'of-tomorrow', detail: 'What to do.' })
    t.match(errorFromResponse({ status, headers, body }, 0), { code, message: 'What to do.' })
  }
})

t.test('the status alone decides what a client and a sender do, whatever the code', async (t) => {
  const wrong: string[] = []
  for (let status = 300; status <= 599; status++) {
    for (const code of [undefined, ...errorCodes]) {
      const headers = { 'content-type': 'application/problem+json' }
      const body = JSON.stringify({ code, status: 400, retryable: false, detail: 'By a gateway.' })
      const error = errorFromResponse({ status, headers, body }, 0)
      const isAgain = status === 408 || status === 429 || status >= 500
      if ((await isRetried(error)) !== isAgain) wrong.push(`a client after ${status} ${code}`)
      if (error.retryable !== isAgain) wrong.push(`retryable of ${status} ${code}`)
      const next = decideNext({ error })
      if (!isDeepStrictEqual(next, nextAfter[status] ?? backOff())) wrong.push(`a sender after ${status} ${code}`)
    }
  }
  t.strictSame(wrong, [])
})

t.test('without a response, a client retries a failed connection and a time-out; a sender retries all', async (t) => {
  for (const code of errorCodes) {
    const error = new IngestError(code, '')
    t.equal(await isRetried(error), code === 'connection-failed' || code === 'request-timeout', code)
    const next: Next = code === 'store-closed' ? { action: 'end' } : backOff()
    t.strictSame(decideNext({ error }), next, code)
  }
  for (const bug of [new TypeError('a bug'), 'text', undefined]) {
    t.equal(await isRetried(bug), false)
    t.strictSame(decideNext({ error: bug }), backOff())
  }
})

t.test('Retry-After is the floor of every backoff of a sender', async (t) => {
  for (const status of [302, 404, 408, 429, 500, 503]) {
    const error = errorFromResponse({ status, headers: { 'retry-after': '7' }, body: '' }, 0)
    t.strictSame(decideNext({ error }), backOff(7000))
  }
})

t.test('a 202 settles the batch', async (t) => {
  const result = { accepted: 1, duplicates: 0, rejected: [] }
  t.strictSame(decideNext({ result }), { action: 'settle', result })
})
