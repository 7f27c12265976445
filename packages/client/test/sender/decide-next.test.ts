import { isDeepStrictEqual } from 'node:util'
import { errorCodes, errorTable, IngestError } from '@ingest/core'
import t from 'tap'
import { errorFromResponse } from '../../src/http/error-from-response.ts'
import { decideNext, type Next } from '../../src/sender/decide-next.ts'

const pause: Next = { action: 'pause', ms: 300_000 }
const badRequest: Next = { action: 'drop', reason: 'bad_request' }
const tooLarge: Next = { action: 'drop', reason: 'too_large' }
const backOff = (floorMs = 0): Next => ({ action: 'back-off', floorMs })

t.test('a 202 settles the batch', async (t) => {
  const result = { accepted: 1, duplicates: 0, rejected: [] }
  t.strictSame(decideNext({ result }), { action: 'settle', result })
})

/** The next action after each status. */
function expected(status: number): Next {
  if (status === 400) return badRequest
  if (status === 413) return tooLarge
  return status === 401 || status === 403 ? pause : backOff()
}

t.test('the status alone decides, whatever the code', async (t) => {
  for (let status = 300; status <= 599; status++) {
    t.strictSame(decideNext({ error: errorFromResponse({ status, headers: {}, body: '<html>' }, 0) }), expected(status))
    for (const code of errorCodes) {
      const headers = { 'content-type': 'application/problem+json' }
      const body = JSON.stringify({ code, status: 400, retryable: false, detail: 'By a gateway.' })
      const next = decideNext({ error: errorFromResponse({ status, headers, body }, 0) })
      if (!isDeepStrictEqual(next, expected(status))) t.strictSame(next, expected(status), `${status} ${code}`)
    }
  }
})

t.test('errors without a status are retried, whatever their code, unless the client is closed', async (t) => {
  for (const code of errorCodes) {
    const next: Next = code === 'store-closed' ? { action: 'end' } : backOff()
    t.strictSame(decideNext({ error: new IngestError(code, '') }), next, code)
  }
})

t.test('the status of each server code decides as in the contract', async (t) => {
  const byStatus: Record<number, Next> = { 400: badRequest, 401: pause, 413: tooLarge }
  for (const code of errorCodes) {
    const status = errorTable[code].status
    t.strictSame(decideNext({ error: new IngestError(code, '', { status }) }), byStatus[status] ?? backOff(), code)
  }
})

t.test('Retry-After is the floor of every backoff', async (t) => {
  for (const status of [302, 404, 408, 429, 500, 503]) {
    const headers = { 'retry-after': '7' }
    t.strictSame(decideNext({ error: errorFromResponse({ status, headers, body: '' }, 0) }), backOff(7000))
  }
})

t.test('unknown errors are retried', async (t) => {
  t.strictSame(decideNext({ error: new TypeError('a bug') }), backOff())
  t.strictSame(decideNext({ error: undefined }), backOff())
})
