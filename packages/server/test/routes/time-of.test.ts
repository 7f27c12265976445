import t from 'tap'
import { timeOf } from '../../src/routes/get-stats.ts'

t.test('a time is said in RFC 3339, to the millisecond', async (t) => {
  t.equal(timeOf(0), '1970-01-01T00:00:00.000Z')
  t.equal(timeOf(1_795_203_225_083), '2026-11-20T19:33:45.083Z')
})

t.test('no time is none', async (t) => {
  t.equal(timeOf(null), null)
})
