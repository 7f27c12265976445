import { errorCodes, IngestError } from '@ingest/core'
import { statusByCode } from '@ingest/server'
import t from 'tap'
import { decideNext, type Next } from '../src/decide-next.ts'
import { refusalOf } from '../src/refusal-of.ts'

const pause: Next = { what: 'pause', ms: 300_000 }
const badRequest: Next = { what: 'drop', reason: 'bad_request' }
const tooLarge: Next = { what: 'drop', reason: 'too_large' }
const backOff = (floorMs = 0): Next => ({ what: 'back-off', floorMs })

t.test('a 202 settles the batch', async (t) => {
  const result = { accepted: 1, duplicates: 0, rejected: [] }
  t.strictSame(decideNext({ result }), { what: 'settle', result })
})

/** Each status, as somebody answers who says nothing else. */
const byStatus: [number, Next][] = [
  [400, badRequest],
  [401, pause],
  [403, pause],
  [404, backOff()],
  [405, backOff()],
  [408, backOff()],
  [409, backOff()],
  [413, tooLarge],
  [418, backOff()],
  [429, backOff()],
  [431, backOff()],
  [301, backOff()],
  [500, backOff()],
  [501, backOff()],
  [502, backOff()],
  [503, backOff()],
  [504, backOff()],
  [599, backOff()],
]
for (const [status, next] of byStatus) {
  t.test(`${status} is ${next.what}`, async (t) => {
    t.strictSame(decideNext({ error: refusalOf({ status, headers: {}, body: '' }, 0) }), next)
  })
}

t.test('each code of the server is what its status says', async (t) => {
  const byServer: Record<number, Next> = { 400: badRequest, 401: pause, 413: tooLarge }
  for (const code of errorCodes) {
    t.strictSame(decideNext({ error: new IngestError(code, '') }), byServer[statusByCode[code]] ?? backOff(), code)
  }
})

t.test('Retry-After is the floor of every backoff', async (t) => {
  for (const status of [429, 503, 500]) {
    const headers = { 'retry-after': '7' }
    t.strictSame(decideNext({ error: refusalOf({ status, headers, body: '' }, 0) }), backOff(7000))
  }
})

t.test('what is no refusal at all loses nothing', async (t) => {
  t.strictSame(decideNext({ error: new TypeError('a bug') }), backOff())
  t.strictSame(decideNext({ error: undefined }), backOff())
})
