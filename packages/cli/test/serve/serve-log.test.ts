import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import t from 'tap'
import type { Output } from '../../src/io.ts'
import { createLog } from '../../src/serve/serve-log.ts'
import { createIo } from '../run-ingest.ts'

t.test('the log is JSON, and text on a terminal', async (t) => {
  for (const [isTerminal, pattern] of [
    [false, /^\{"level":30,"time":\d+,"n":1,"msg":"hello"\}\n$/],
    [true, /\d\d:\d\d:\d\d.*INFO.*hello.*\{"n":1\}/],
  ] as const) {
    const { io, stderr } = createIo({ isTerminal })
    const log = await createLog(io, 'info')
    log.info({ n: 1 }, 'hello')
    log.debug('unheard')
    t.match(stderr(), pattern)
  }
})

t.test('lines are dropped and counted while the reader of the log has stopped', async (t) => {
  const { io } = createIo()
  const stderr = new PassThrough({ highWaterMark: 1 })
  const log = await createLog({ ...io, stderr: stderr as Output }, 'info')
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
