import t from 'tap'
import { type ErrorCode, errorCodes, IngestError } from '../src/error.ts'

t.test('an IngestError is an Error with a code, a message and a name', async (t) => {
  const error = new IngestError('invalid-cursor', 'The cursor is invalid.')
  t.ok(error instanceof Error)
  t.match(error, { name: 'IngestError', code: 'invalid-cursor', message: 'The cursor is invalid.' })
  t.equal(String(error), 'IngestError: The cursor is invalid.')
})

t.test('the JSON of an error has its message', async (t) => {
  const error = new IngestError('unauthorized', 'The key is unknown.', { status: 401 })
  const expected = { name: 'IngestError', code: 'unauthorized', status: 401, message: 'The key is unknown.' }
  t.strictSame(JSON.parse(JSON.stringify({ failure: error })), { failure: expected })
})

t.test('every code has a title and a retryability', async (t) => {
  for (const code of errorCodes) {
    const error = new IngestError(code, 'a sentence')
    t.match(error.title, /^[A-Z][a-z ]+$/, code)
    t.type(error.retryable, 'boolean', code)
    t.match(code, /^[a-z]+(-[a-z]+)*$/)
  }
})

t.test('errors of the sender are permanent, and errors of the service are retryable', async (t) => {
  const codes: [isRetryable: boolean, ...codes: ErrorCode[]][] = [
    [false, 'malformed-body', 'invalid-envelope', 'batch-too-large', 'too-many-events', 'unauthorized'],
    [true, 'overloaded', 'disk-full', 'store-failed', 'store-closed', 'rate-limited'],
  ]
  for (const [isRetryable, ...rest] of codes) {
    for (const code of rest) t.equal(new IngestError(code, '').retryable, isRetryable, code)
  }
})

t.test('an operation may have completed only if a store, server or network failed during it', async (t) => {
  const unknown = errorCodes.filter((code) => new IngestError(code, '').isOutcomeUnknown)
  const ofStore = ['internal-error', 'store-unavailable', 'store-failed']
  t.strictSame(unknown, [...ofStore, 'request-timeout', 'connection-failed', 'unexpected-response', 'source-changed'])
})

t.test('the status of a response decides retryability before the code', async (t) => {
  for (const code of errorCodes) {
    const retryable = [301, 400, 401, 404, 408, 409, 413, 428, 429, 430, 499, 500, 503, 599].filter(
      (status) => new IngestError(code, '', { status }).retryable,
    )
    t.strictSame(retryable, [408, 429, 500, 503, 599], code)
  }
})

t.test('details are properties of the error', async (t) => {
  const cause = new Error('below')
  const issues = [{ code: 'required', path: '/a', message: 'Required.' }] as const
  const details = { limit: 1, actual: 2, retryAfterSeconds: 3, issues, status: 503, cause }
  t.match(new IngestError('overloaded', '', details), details)
  const bare = new IngestError('overloaded', '')
  for (const name of ['limit', 'actual', 'retryAfterSeconds', 'issues', 'status'] as const)
    t.equal(bare[name], undefined)
  t.notOk('cause' in bare)
})
