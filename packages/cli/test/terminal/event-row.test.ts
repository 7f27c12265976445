import t from 'tap'
import { formatDay, formatEventRow } from '../../src/terminal/event-row.ts'

const receivedAt = new Date(2026, 10, 20, 7, 5, 9, 50).getTime()
const row = (text: string, columns = 200, hasColors = false) =>
  formatEventRow({ cursor: '1-0', receivedAt, bytes: Buffer.from(text) }, { columns, hasColors })

const text =
  '{"projectId":"p","eventId":"e-1","type":"round.end","buildId":"2026.11.20","playerId":1234567890,"score":{"a":[1,2]}}'

t.test('a row has the time, type, build, player, and other fields', async (t) => {
  t.equal(
    row(text),
    '07:05:09.050  round.end         2026.11.20      1234567890    {"eventId":"e-1","score":{"a":[1,2]}}',
  )
  t.equal(
    row('{"eventId":"e","type":null}'),
    `07:05:09.050  ${'-'.padEnd(16)}  ${'-'.padEnd(14)}  ${'-'.padEnd(12)}  {"eventId":"e"}`,
  )
  t.match(
    row('{"type":"one that is longer than its column","buildId":"b"}'),
    '  one that is longer than its column  b   ',
  )
})

t.test('a row is no wider than the terminal', async (t) => {
  for (const columns of [1, 10, 40, 79, 80]) {
    t.equal([...row(text, columns)].length, columns)
    t.ok(row(text, columns).endsWith('…'))
  }
  const whole = row(text)
  t.equal(row(text, whole.length), whole)
  t.equal(row('{"type":"日本語"}', 20), '07:05:09.050  日本…', 'wide characters take two columns')
  t.equal(row('{"type":"日本語"}', 19), '07:05:09.050  日本…')
  t.equal(row('{"type":"e\u0301e\u0301e\u0301"}', 17), '07:05:09.050  e\u0301e\u0301…', 'combining ones none')
})

t.test('colors change only colors', async (t) => {
  for (const columns of [5, 13, 20, 200]) {
    const coloured = row(text, columns, true).replaceAll('\x1b', '␛')
    t.match(coloured, /^␛\[2m/)
    t.equal(coloured.replaceAll(/␛\[\d+m/g, ''), row(text, columns))
    t.equal(coloured.match(/␛\[22m/g)?.length, 2, 'and end within the line')
  }
})

t.test('control characters of events are escaped', async (t) => {
  const evil = '\x1b[2J\x07\r\n\x9b31m\x7f\u202e\u2066\u2028\ud800\u{e0001}'
  const shown = row(JSON.stringify({ eventId: evil, type: evil, buildId: evil, playerId: evil, [evil]: evil }), 2000)
  t.notMatch(shown, /[\p{Cc}\p{Cf}\p{Cs}\u2028]/u)
  t.match(shown, '\\u001b[2J\\u0007\\u000d\\u000a\\u009b31m\\u007f\\u202e\\u2066\\u2028\\ud800\\udb40\\udc01')
})

t.test('days are local', async (t) => {
  t.equal(formatDay(receivedAt), '2026-11-20')
  t.equal(formatDay(new Date(2026, 0, 1).getTime()), '2026-01-01')
  t.equal(formatDay(new Date(2026, 0, 1).getTime() - 1), '2025-12-31')
})
