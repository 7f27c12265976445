import { errorCodes, IngestError } from '@ingest/core'
import t from 'tap'
import { problemAnswer, statusByCode } from '../../src/http/response.ts'

t.test('every refusal is a problem with a type, a code and the id of its request', async (t) => {
  for (const code of errorCodes) {
    const error = new IngestError(code, 'What happened.')
    const { status, headers, body } = problemAnswer(error, 'id-1')
    t.equal(status, statusByCode[code])
    t.match(headers, {
      'Content-Type': 'application/problem+json',
      'Content-Length': String(Buffer.byteLength(body)),
      'Cache-Control': 'no-store',
      'X-Request-Id': 'id-1',
    })
    t.match(JSON.parse(body), {
      type: `urn:ingest:problem:${code}`,
      title: error.title,
      status,
      detail: /^(disk-full|store-.*)$/.test(code) ? 'The store cannot do this now: try again later.' : 'What happened.',
      code,
      requestId: 'id-1',
      retryable: status >= 500 || error.retryable,
    })
  }
})

t.test('every 429 and 503 says when to come back, and no other', async (t) => {
  for (const code of errorCodes) {
    const { status, headers, body } = problemAnswer(new IngestError(code, ''), 'id-1')
    t.equal('Retry-After' in headers, status === 429 || status === 503, code)
    if ('Retry-After' in headers) {
      t.match(headers['Retry-After'], /^[1-9]\d*$/)
      t.equal(JSON.parse(body).retryAfter, Number(headers['Retry-After']))
    }
  }
})

t.test('what the error carries is in the problem, and what it does not is not', async (t) => {
  const issues = [{ code: 'required' as const, path: '/eventId', message: 'Every event needs an eventId.' }]
  const error = new IngestError('overloaded', '', { limit: 1, actual: 2, retryAfterSeconds: 7, issues })
  const { headers, body } = problemAnswer(error, 'id-1')
  t.match(JSON.parse(body), { limit: 1, actual: 2, retryAfter: 7, issues })
  t.equal(headers['Retry-After'], '7')
  const bare = JSON.parse(problemAnswer(new IngestError('not-found', ''), 'id-1').body)
  for (const name of ['limit', 'actual', 'retryAfter', 'issues', 'stack', 'cause']) t.notOk(name in bare, name)
})
