import t from 'tap'
import { createErrorLog, guardLog, type Log } from '../src/log.ts'

t.test('an error is logged once a second for each code and message, with the number of those left out', async (t) => {
  let time = 0
  const lines: unknown[] = []
  const error = (fields: object, message: string) => void lines.push([message, fields])
  const logError = createErrorLog({ error }, () => time)
  for (; time < 1000; time++) logError('store-unavailable', { at: time }, 'request refused')
  logError('disk-full', { at: time }, 'request refused')
  logError('disk-full', { at: time }, 'keys cannot be checked')
  logError('store-unavailable', { at: time }, 'request refused')
  time = 5000
  logError('store-unavailable', { at: time }, 'request refused')
  t.strictSame(lines, [
    ['request refused', { at: 0 }],
    ['request refused', { at: 1000 }],
    ['keys cannot be checked', { at: 1000 }],
    ['request refused', { at: 1000, suppressed: 999 }],
    ['request refused', { at: 5000 }],
  ])
})

t.test('a log method that is missing or throws is ignored', async (t) => {
  const seen: string[] = []
  const log = guardLog({
    info: (_: object, message: string) => void seen.push(message),
    warn() {
      throw new Error('full')
    },
  } as Partial<Log> as Log)
  for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level]({}, level)
  t.strictSame(seen, ['info'])
  t.equal(log.isLevelEnabled?.('debug'), false)
  t.equal(log.isLevelEnabled?.('warn'), true)
})
