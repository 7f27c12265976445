import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, errorCodes, errorTable, IngestError } from '@ingest/core'
import t from 'tap'
import { problemResponse } from '../../src/http/response.ts'
import { codesOfRoutes } from '../../src/openapi/problems.ts'

t.test('every error is a problem document with a type, a code and the request id', async (t) => {
  for (const code of errorCodes) {
    const error = new IngestError(code, 'What happened.')
    const { status, headers, body } = problemResponse(error, 'id-1')
    t.equal(status, errorTable[code].status)
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

t.test('every 429 and 503 has a Retry-After, and no other status', async (t) => {
  for (const code of errorCodes) {
    const { status, headers, body } = problemResponse(new IngestError(code, ''), 'id-1')
    t.equal('Retry-After' in headers, status === 429 || status === 503, code)
    if ('Retry-After' in headers) {
      t.match(headers['Retry-After'], /^[1-9]\d*$/)
      t.equal(JSON.parse(body).retryAfter, Number(headers['Retry-After']))
    }
  }
})

t.test('the problem has the details of the error and no others', async (t) => {
  const issues = [{ code: 'required' as const, path: '/eventId', message: 'Every event needs an eventId.' }]
  const error = new IngestError('overloaded', '', { limit: 1, actual: 2, retryAfterSeconds: 7, issues })
  const { headers, body } = problemResponse(error, 'id-1')
  t.match(JSON.parse(body), { limit: 1, actual: 2, retryAfter: 7, issues })
  t.equal(headers['Retry-After'], '7')
  const bare = JSON.parse(problemResponse(new IngestError('not-found', ''), 'id-1').body)
  for (const name of ['limit', 'actual', 'retryAfter', 'issues', 'stack', 'cause']) t.notOk(name in bare, name)
})

t.test('a 400 or 413, on which senders drop a batch, is never retryable', async (t) => {
  for (const code of errorCodes) {
    const status = errorTable[code].status
    if (status === 400 || status === 413) t.equal(new IngestError(code, '').retryable, false, code)
    if (status === 503 || status === 429) t.equal(new IngestError(code, '').retryable, true, code)
  }
})

t.test('the docs list every code with its status and whether it is retryable', async (t) => {
  // tests run in a compiled copy of the repository, without docs
  const root = execFileSync('git', ['rev-parse', '--show-toplevel'], { encoding: 'utf8' }).trim()
  const rows = readFileSync(join(root, 'docs/http-api.md'), 'utf8').matchAll(
    /^\| `([a-z-]+)` +\| (\d{3}) +\| (yes|no) /gm,
  )
  const documented = Array.from(rows, ([, code = '', status, retryable]) => [code, Number(status), retryable === 'yes'])
  // a problem document says of every 5xx that it is retryable
  const isRetryable = (code: ErrorCode) =>
    (codesOfRoutes.includes(code) && errorTable[code].status >= 500) || new IngestError(code, '').retryable
  const expected = errorCodes.map((code) => [code, errorTable[code].status, isRetryable(code)])
  t.strictSame(documented.sort(), expected.sort())
})
