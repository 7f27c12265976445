import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes, IngestError } from '@ingest/core'
import { CommanderError } from 'commander'
import t from 'tap'
import { CommandFailure, exitCode, exitCodeHelp, exitCodeOf, toFailure } from '../src/exit-code.ts'
import { Interrupted } from '../src/terminal/on-signal.ts'
import { ingest } from './run-ingest.ts'
import { createKey, projectId } from './served.ts'

t.test('every error code has an exit code, and none is 0', (t) => {
  const codes = errorCodes.map(exitCodeOf)
  t.notOk(codes.includes(exitCode.done))
  t.ok(codes.every((code) => Object.values(exitCode).some((each) => each === code)))
  t.end()
})

t.test('the table in --help names each exit code once', (t) => {
  const named = Array.from(exitCodeHelp.matchAll(/^ {2}(\d) {2}\S/gm), ([, code]) => Number(code))
  t.strictSame(named, Object.values(exitCode))
  t.end()
})

t.test('a damaged or foreign store: exit code 5, one line, and no change', async (t) => {
  const data = t.testdir()
  await createKey(data)
  const path = join(data, 'events', 'data.mdb')
  const intact = readFileSync(path)
  const damages: [string, Buffer][] = [
    ['zeroed', Buffer.alloc(intact.length)],
    ['cut', intact.subarray(0, -4096)],
    ['cut in its header', intact.subarray(0, 100)],
    ['foreign', Buffer.from('SQLite format 3\0'.repeat(1000))],
  ]
  const store = ['--store', data, '--project', projectId]
  const commands = [
    ['export', ...store],
    ['keys', 'list', ...store],
    ['keys', 'create', ...store],
    ['serve', '--store', data, '--listen', '127.0.0.1:0'],
  ]
  for (const [name, bytes] of damages) {
    writeFileSync(path, bytes)
    for (const command of name === 'zeroed' ? commands : commands.slice(0, 1)) {
      t.match(
        await ingest(command),
        { code: 5, stdout: /^$/, stderr: /^ingest: .*data\.mdb cannot be opened: .*\n$/ },
        `${name}: ${command[0]}`,
      )
    }
    t.ok(readFileSync(path).equals(bytes))
  }
  writeFileSync(path, intact)
  t.match(await ingest(['keys', 'list', ...store]), { code: 0, stderr: /^$/ }, 'a copy brings it back')
  rmSync(path)
  t.match(await ingest(['export', ...store]), { code: 5, stderr: /^ingest: .* is missing or empty, and .*\n$/ })
  t.notOk(existsSync(path))
  t.match(await ingest(['export', '--store', join(data, 'none'), '--project', projectId]), {
    code: 2,
    stdout: /^$/,
    stderr: /^ingest: There is no store in .*\n$/,
  })
})

t.test('every failure has an exit code, a code, a message, and whether it is retryable', async (t) => {
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

t.test('a CommandFailure is reported unchanged', async (t) => {
  const failure = { exitCode: 5, code: 'events-rejected', message: 'Some.', retryable: false, details: { events: 3 } }
  t.equal(await toFailure(new CommandFailure(failure)), failure)
})

t.test('any other error is a bug, reported with its stack', async (t) => {
  const error = new TypeError('oops')
  t.strictSame(await toFailure(error), {
    exitCode: 1,
    code: 'internal-error',
    message: error.stack,
    retryable: false,
  })
  t.match(await toFailure('no error at all'), { exitCode: 1, message: 'no error at all' })
})
