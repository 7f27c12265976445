import t from 'tap'
import { parseCount, parseCounts } from '../src/parse-count.js'

t.test('counts may be written in thousands and millions', async (t) => {
  t.strictSame(parseCounts('0,500,250k,1.5M'), [0, 500, 250_000, 1_500_000])
  for (const text of ['', '-1', '10m', 'M', '1e6']) t.throws(() => parseCount(text), /is not a count/, text)
})
