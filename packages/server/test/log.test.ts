import t from 'tap'
import { errorsToConsole } from '../src/log.ts'

t.test('whoever names no log sees what went wrong, and nothing else', async (t) => {
  const written = t.capture(console, 'error')
  const others = [t.capture(console, 'info'), t.capture(console, 'log'), t.capture(console, 'warn')]
  errorsToConsole.info({}, 'listening')
  errorsToConsole.warn({}, 'careful')
  errorsToConsole.error({ requestId: 'id-1' }, 'request failed')
  t.strictSame(
    written().map(({ args }) => args),
    [['ingest: request failed', { requestId: 'id-1' }]],
  )
  for (const each of others) t.strictSame(each(), [])
})
