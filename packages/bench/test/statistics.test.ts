import t from 'tap'
import { percentile, summarize, summarizeRatios } from '../src/statistics.js'

t.test('a summary has the middle and the ends, whatever the order', async (t) => {
  t.strictSame(summarize([3, 1, 10]), { median: 3, min: 1, max: 10, count: 3 })
  t.strictSame(summarize([10, 4, 1, 2]), { median: 3, min: 1, max: 10, count: 4 })
  t.strictSame(summarize([7]), { median: 7, min: 7, max: 7, count: 1 })
  t.throws(() => summarize([]))
})

t.test('summarizing leaves the values as they are', async (t) => {
  const values = [3, 1, 2]
  summarize(values)
  t.strictSame(values, [3, 1, 2])
})

t.test('ratios are taken round by round, so a slow round is no outlier', async (t) => {
  t.strictSame(summarizeRatios([50, 5, 500], [100, 10, 1000]), { median: 0.5, min: 0.5, max: 0.5, count: 3 })
  t.throws(() => summarizeRatios([1, 2], [1]), /2 rounds/)
})

t.test('a percentile is a value that was measured', async (t) => {
  const values = Array.from({ length: 100 }, (_, i) => i + 1)
  t.equal(percentile(values, 0.5), 50)
  t.equal(percentile(values, 0.99), 99)
  t.equal(percentile(values, 1), 100)
  t.equal(percentile(values, 0), 1)
  t.equal(percentile([4], 0.99), 4)
  t.throws(() => percentile([], 0.5))
})
