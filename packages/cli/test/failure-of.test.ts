import { IngestError } from '@ingest/core'
import { CommanderError } from 'commander'
import t from 'tap'
import { CommandFailure, toFailure } from '../src/exit-code.ts'
import { Interrupted } from '../src/terminal/on-signal.ts'

t.test('whatever goes wrong has an exit code, a code, a sentence, and whether to try again', async (t) => {
  const cases: [unknown, object][] = [
    [
      new CommanderError(1, 'commander.unknownOption', 'error: unknown option'),
      { exitCode: 2, code: 'invalid-argument', message: 'unknown option', retryable: false },
    ],
    [
      new Interrupted('SIGINT', 'again'),
      { exitCode: 130, code: 'interrupted', message: 'SIGINT: again', retryable: true },
    ],
    [
      new IngestError('map-frozen', 'It is frozen.'),
      { exitCode: 3, code: 'map-frozen', message: 'It is frozen.', retryable: false },
    ],
    [new IngestError('overloaded', 'Later.'), { exitCode: 6, code: 'overloaded', message: 'Later.', retryable: true }],
  ]
  for (const [error, failure] of cases) t.strictSame(await toFailure(error), failure)
})

t.test('what a command says of itself stands', async (t) => {
  const failure = { exitCode: 5, code: 'events-rejected', message: 'Some.', retryable: false, details: { events: 3 } }
  t.equal(await toFailure(new CommandFailure(failure)), failure)
})

t.test('anything else is a bug, and shows where it is', async (t) => {
  const error = new TypeError('oops')
  t.strictSame(await toFailure(error), {
    exitCode: 1,
    code: 'internal-error',
    message: error.stack,
    retryable: false,
  })
  t.match(await toFailure('no error at all'), { exitCode: 1, message: 'no error at all' })
})
