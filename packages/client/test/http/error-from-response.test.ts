import { errorCodes } from '@ingest/core'
import t from 'tap'
import { errorFromResponse, parseRetryAfter, unexpectedResponse } from '../../src/http/error-from-response.ts'

const type = { 'content-type': 'application/problem+json' }
const now = 0

t.test('the error has the code and all details of the problem document', async (t) => {
  const issues = [{ code: 'required', path: '/buildId', message: 'Required.' }]
  for (const code of errorCodes) {
    const body = JSON.stringify({ code, detail: 'What to do.', issues, limit: 1, actual: 2, retryAfter: 3 })
    t.match(errorFromResponse({ status: 400, headers: type, body }, now), {
      name: 'IngestError',
      code,
      status: 400,
      message: 'What to do.',
      issues,
      limit: 1,
      actual: 2,
      retryAfterSeconds: 3,
    })
  }
})

t.test('the status decides whether an error is retryable', async (t) => {
  const error = (status: number, code: string) =>
    errorFromResponse({ status, headers: type, body: JSON.stringify({ code, detail: 'By a gateway.' }) }, now)
  t.match(error(503, 'malformed-body'), { code: 'malformed-body', status: 503, retryable: true })
  t.match(error(400, 'overloaded'), { code: 'overloaded', status: 400, retryable: false })
})

t.test('the Retry-After header takes precedence over the body', async (t) => {
  const headers = { ...type, 'retry-after': '9' }
  const body = JSON.stringify({ code: 'rate-limited', retryAfter: 3 })
  t.equal(errorFromResponse({ status: 429, headers, body }, now).retryAfterSeconds, 9)
})

t.test('the retryAfter of the body is at most an hour', async (t) => {
  const headers = { 'content-type': 'application/problem+json' }
  for (const [retryAfter, seconds] of [
    [3600, 3600],
    [999_999_999, 3600],
  ]) {
    const body = JSON.stringify({ code: 'rate-limited', retryAfter })
    t.equal(errorFromResponse({ status: 429, headers, body }, 0).retryAfterSeconds, seconds)
  }
})

const page = '<html>Bad Gateway</html>'
const statuses: [number, string, boolean][] = [
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
  [418, 'unexpected-response', false],
  [429, 'rate-limited', true],
  [431, 'headers-too-large', false],
  [500, 'internal-error', true],
  [502, 'connection-failed', true],
  [503, 'overloaded', true],
  [504, 'connection-failed', true],
  [599, 'overloaded', true],
]

for (const [status, code, retryable] of statuses) {
  t.test(`${status} without a problem document is ${code}`, async (t) => {
    const error = errorFromResponse({ status, headers: { 'content-type': 'text/html' }, body: page }, now)
    t.match(error, { code, status, retryable })
    t.match(error.message, String(status))
    t.notMatch(error.message, 'html')
    const unknown = JSON.stringify({ code: 'of-tomorrow', detail: 'What to do.' })
    t.match(errorFromResponse({ status, headers: type, body: unknown }, now), { code, message: 'What to do.' })
  })
}

t.test('an invalid problem document gets the code of the status', async (t) => {
  for (const body of ['', '{', 'null', '[]', '7', '{"code":7,"detail":{},"issues":"a","limit":-1,"actual":"b"}']) {
    const error = errorFromResponse({ status: 503, headers: type, body }, now)
    t.match(error, { code: 'overloaded', issues: undefined, limit: undefined, actual: undefined })
  }
  const body = JSON.stringify({ issues: [null, 7, {}, { code: 'required', path: '', message: 'Required.' }] })
  t.equal(errorFromResponse({ status: 400, headers: type, body }, now).issues?.length, 1)
})

t.test('the error of a redirect names its target', async (t) => {
  const error = errorFromResponse({ status: 301, headers: { location: 'https://elsewhere.example/' }, body: '' }, now)
  t.match(error, {
    code: 'unexpected-response',
    status: 301,
    message: /redirect, 301 to https:\/\/elsewhere\.example\//,
  })
  t.match(errorFromResponse({ status: 304, headers: {}, body: '' }, now), { code: 'unexpected-response' })
})

t.test('the error of an unexpected response names the reason', async (t) => {
  t.match(unexpectedResponse('it is not JSON'), { code: 'unexpected-response', message: /it is not JSON/ })
})

const noon = Date.parse('2026-11-20T17:51:00.250Z')

const values: [string | undefined, number | undefined][] = [
  ['0', 0],
  ['1', 1],
  ['120', 120],
  ['Fri, 20 Nov 2026 17:51:10 GMT', 10],
  ['Fri, 20 Nov 2026 17:50:00 GMT', 0],
  [undefined, undefined],
  ['', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['soon', undefined],
  ['2026-11-20', undefined],
  ['3600', 3600],
  ['3601', 3600],
  ['99999999999', 3600],
  ['Fri, 20 Nov 2026 18:51:00 GMT', 3600],
  ['Fri, 20 Nov 2026 18:51:01 GMT', 3600],
  ['Tue, 20 Nov 2057 17:51:00 GMT', 3600],
  ['Fri, 99 Nov 2026 17:51:10 GMT', undefined],
]

for (const [value, seconds] of values) {
  t.test(`Retry-After ${value} is ${seconds} s`, async (t) => {
    t.equal(parseRetryAfter(value, noon), seconds)
  })
}
