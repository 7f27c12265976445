import t from 'tap'
import { errorCodes, IngestError } from '../src/error.ts'

t.test('an IngestError is an Error with a code, a message and a name', async (t) => {
  const error = new IngestError('invalid-cursor', 'The cursor is invalid.')
  t.ok(error instanceof Error)
  t.match(error, { name: 'IngestError', code: 'invalid-cursor', message: 'The cursor is invalid.' })
  t.equal(String(error), 'IngestError: The cursor is invalid.')
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
  const retryable = (code: (typeof errorCodes)[number]) => new IngestError(code, '').retryable
  for (const code of [
    'malformed-body',
    'invalid-envelope',
    'batch-too-large',
    'too-many-events',
    'unauthorized',
  ] as const) {
    t.equal(retryable(code), false, code)
  }
  for (const code of ['overloaded', 'disk-full', 'store-failed', 'store-closed', 'rate-limited'] as const) {
    t.equal(retryable(code), true, code)
  }
})

t.test(
  'an operation may have been completed only if the store, the server or the network failed during it',
  async (t) => {
    const unknown = errorCodes.filter((code) => new IngestError(code, '').isOutcomeUnknown)
    t.strictSame(unknown, [
      'internal-error',
      'store-unavailable',
      'store-failed',
      'request-timeout',
      'connection-failed',
      'unexpected-response',
      'source-changed',
    ])
  },
)

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
  const full = new IngestError('overloaded', '', {
    limit: 1,
    actual: 2,
    retryAfterSeconds: 3,
    issues,
    status: 503,
    cause,
  })
  t.match(full, { limit: 1, actual: 2, retryAfterSeconds: 3, issues, status: 503, cause })
  const bare = new IngestError('overloaded', '')
  t.match(bare, {
    limit: undefined,
    actual: undefined,
    retryAfterSeconds: undefined,
    issues: undefined,
    status: undefined,
  })
  t.notOk('cause' in bare)
})
