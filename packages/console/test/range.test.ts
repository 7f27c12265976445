import t from 'tap'
import { changeQuery } from '../page/address.ts'
import { formatLocal, parseLocal } from '../page/format.ts'
import { formatRange, parseRange, spans } from '../page/range.ts'

const now = Date.parse('2026-11-25T16:30:00Z')
const parse = (query: string) => parseRange(new URLSearchParams(query), now)

t.test('a range in the address is a span up to now, or two times', async (t) => {
  t.match(parse(''), { choice: '1h', from: now - 3_600_000, to: now, isLive: true, note: undefined })
  t.match(parse('range=14d'), { from: now - 14 * 86_400_000, to: now, isLive: true, note: undefined })
  const custom = parse('from=2026-11-20T00:00:00Z&to=2026-11-20T02:30:00.250%2B01:00')
  t.match(custom, { from: Date.UTC(2026, 10, 20), to: Date.UTC(2026, 10, 20, 1, 30, 0, 250), isLive: false })
  t.equal(custom.note, undefined)
})

t.test('an invalid range becomes the last hour, with a note', async (t) => {
  for (const query of [
    'range=2h',
    'range=toString',
    'from=2026-11-20T00:00:00Z',
    'from=2026-11-20&to=2026-11-21',
    'from=2026-11-21T00:00:00Z&to=2026-11-21T00:00:00Z',
    'from=2026-11-31T99:00:00Z&to=2026-12-21T00:00:00Z',
  ]) {
    t.match(parse(query), { choice: '1h', isLive: true, note: /: showing the last hour\.$/ }, query)
  }
})

t.test('a range that is formatted is parsed as it was', async (t) => {
  const custom = { from: now, to: now + 1_250 }
  for (const choice of [...(Object.keys(spans) as (keyof typeof spans)[]), custom]) {
    t.strictSame(parse(changeQuery('range=1h&from=a&to=b', formatRange(choice))).choice, choice)
  }
  t.strictSame(formatRange(custom), { range: undefined, from: '2026-11-25T16:30:00Z', to: '2026-11-25T16:30:01.250Z' })
  t.equal(parseLocal(formatLocal(now)), now)
  t.ok(Number.isNaN(parseLocal('')))
})

t.test('members of a query are replaced, added and removed; the others stay', async (t) => {
  t.equal(changeQuery('a=1&type=x&type=y&b=2', { type: ['z', '&'], a: undefined, c: '3' }), 'b=2&type=z&type=%26&c=3')
  t.equal(changeQuery('a=1', { a: [] }), '')
})
