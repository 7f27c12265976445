import t from 'tap'
import { formatBytes, formatCompact, formatCount, formatRate, formatSpan, formatTime } from '../page/format.ts'
import { formatUnits } from '../page/views/where/format-units.ts'

const most = Number.MAX_SAFE_INTEGER

t.test('the largest numbers fit where they are shown', async (t) => {
  t.equal(formatCount(most), '9,007,199,254,740,991')
  t.equal(formatRate(most), '9,007,199,254,740,991')
  t.equal(formatBytes(most), '8 PiB')
  t.equal(formatSpan(most), '104,249,991 d')
  t.equal(formatUnits(-most), '−9.0072E15')
  for (const count of [0, 999, 999_999, 1e12, most]) t.ok(formatCompact(count).length <= 5, formatCompact(count))
})

t.test('a time has its date unless it is today', async (t) => {
  const at = Date.parse('2026-11-20T12:00:00Z')
  t.match(formatTime(at, at), /^\d\d:00:00$/)
  t.match(formatTime(at, at + 48 * 3_600_000), /^2026-11-20 \d\d:00:00$/)
})
