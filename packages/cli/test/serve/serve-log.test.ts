import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { IngestError } from '@ingest/core'
import t from 'tap'
import type { Output } from '../../src/io.ts'
import { createLog, formatRecord, serializeError } from '../../src/serve/serve-log.ts'
import { createIo } from '../run-ingest.ts'

const time = new Date(2026, 10, 20, 17, 51, 0, 250).getTime()

t.test('a record is one line: time, message and fields', async (t) => {
  t.equal(
    formatRecord({ level: 30, time, msg: 'drained', accepted: 3, data: 'a b', list: [1] }, false),
    '17:51:00 drained accepted=3 data="a b" list=[1]\n',
  )
  t.equal(formatRecord({ level: 40, time, msg: 'no key yet' }, false), '17:51:00 warning: no key yet\n')
  t.equal(
    formatRecord({ level: 50, time, msg: 'request failed', err: { message: 'x', stack: 'Error: x\n    at y' } }, false),
    '17:51:00 error: request failed\n    Error: x\n        at y\n',
  )
})

t.test('with colours it is the same text', async (t) => {
  const record = { level: 60, time, msg: 'the store has failed', code: 'store-failed' }
  const colored = formatRecord(record, true)
  t.match(colored, '\x1b[31mfatal: the store has failed\x1b[39m')
  t.equal(stripVTControlCharacters(colored), formatRecord(record, false))
})

t.test('control characters in a record are escaped', async (t) => {
  const line = formatRecord(
    { level: 30, time, msg: 'a\u001b[2J', '\u001b[31m': '\u009b', err: { stack: 'b\u001b[0m' } },
    false,
  )
  t.notOk(
    ['\u001b', '\u009b'].some((character) => line.includes(character)),
    JSON.stringify(line),
  )
})

t.test('the log is JSON except on a terminal, unless text is requested', async (t) => {
  for (const [format, pattern] of [
    ['auto', /^\{"level":30,"time":\d+,"msg":"hello"\}\n$/],
    ['json', /^\{"level":30,"time":\d+,"msg":"hello"\}\n$/],
    ['text', /^\d\d:\d\d:\d\d hello\n$/],
  ] as const) {
    const { io, stderr } = createIo()
    const log = await createLog(io, { level: 'info', format })
    log.info('hello')
    log.debug('unheard')
    t.match(stderr(), pattern)
  }
})

t.test('lines are dropped and counted while the reader of the log has stopped', async (t) => {
  const { io } = createIo()
  const stderr = new PassThrough({ highWaterMark: 1 })
  const log = await createLog({ ...io, stderr: stderr as Output }, { level: 'info', format: 'json' })
  const text = 'x'.repeat(2 ** 20)
  for (let i = 0; i < 20; i++) log.info({ i, text }, 'a line')
  t.ok(stderr.writableLength < 8 * 2 ** 20)
  let read = ''
  stderr.on('data', (chunk) => {
    read += chunk
  })
  await once(stderr, 'drain')
  log.info('later')
  const records = read
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const kept = records.filter(({ msg }) => msg === 'a line').length
  t.match(records.slice(kept), [{ msg: 'later' }, { level: 40, lines: 20 - kept, msg: /were dropped/ }])
})

t.test('an error is logged once, with each of its causes once', async (t) => {
  const refused = new Error('connect ECONNREFUSED 127.0.0.1:5432')
  const cause = new AggregateError([refused, new Error('connect ECONNREFUSED ::1:5432')], '')
  const outage = new IngestError('store-unavailable', `The database cannot be reached: ${refused.message}`, { cause })
  t.strictSame(serializeError(outage), { code: 'store-unavailable', message: outage.message })
  const damage = new IngestError('store-failed', 'The disk fails.', { cause: new Error('EIO') })
  t.strictSame(serializeError(damage), { code: 'store-failed', message: 'The disk fails: EIO' })

  const { io, stderr } = createIo()
  const log = await createLog(io, { level: 'info', format: 'text' })
  log.error({ err: outage, requestId: 'r-1' }, 'request refused')
  t.match(
    stderr(),
    /^\d\d:\d\d:\d\d error: request refused: The database cannot be reached: connect ECONNREFUSED 127.0.0.1:5432 requestId=r-1\n$/,
  )
})

t.test('an unexpected error is logged with its stack, and those of its causes', async (t) => {
  const inner = new Error('inner')
  const error = Object.assign(new Error('outer', { cause: inner }), { secret: 'x' })
  t.strictSame(serializeError(error), {
    message: 'outer: inner',
    stack: `${error.stack}\ncaused by: ${inner.stack}`,
  })
  inner.cause = error
  t.equal(serializeError(error).message, 'outer: inner', 'a circle ends')
  t.strictSame(serializeError('text'), { message: 'text' })
})
