import { stripVTControlCharacters } from 'node:util'
import t from 'tap'
import { createLog, formatRecord } from '../../src/serve/serve-log.ts'
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
