import t from 'tap'
import { parseTime } from '../../src/events/event.ts'

t.test('a time is one of RFC 3339 with a zone, or milliseconds since 1970', async (t) => {
  const time = Date.UTC(2026, 10, 20, 17, 51, 0, 250)
  t.equal(parseTime('2026-11-20T17:51:00.250Z'), time)
  t.equal(parseTime('2026-11-20t17:51:00.2509z'), time)
  t.equal(parseTime('2026-11-20T19:21:00.25+01:30'), time)
  t.equal(parseTime('2026-11-20T17:51:00-00:00'), time - 250)
  t.equal(parseTime(String(time)), time)
  t.equal(parseTime('0'), 0)
})

t.test('what is not quite one is none', async (t) => {
  const none = ['', ' ', 'now', '-1', '1.5', '1e3', '2026-11-20', '2026-11-20T17:51:00', '2026-02-30T00:00:00Z', 'Z']
  for (const text of [...none, '2026-11-20 17:51:00Z', '2016-12-31T23:59:60Z', '9'.repeat(16)]) {
    t.equal(parseTime(text), undefined, text)
  }
})
