import t from 'tap'
import { formatNumber, formatSummary, formatTable } from '../src/format.js'

t.test('numbers have the three digits that matter', async (t) => {
  t.strictSame([0, 0.5678, 12.345, 123.4, 1234.5, 1_234_567, -1780.4, Number.NaN].map(formatNumber), [
    '0',
    '0.57',
    '12.3',
    '123',
    '1,230',
    '1,230,000',
    '-1,780',
    '–',
  ])
})

t.test('a summary of several shows its spread', async (t) => {
  t.equal(formatSummary({ median: 0.5, min: 0.4, max: 0.6, count: 3 }, ' ×'), '0.5 × (0.4–0.6)')
  t.equal(formatSummary({ median: 7, min: 7, max: 7, count: 1 }, ' ms'), '7 ms')
  t.equal(formatSummary(undefined), 'not measured')
})

t.test('a table is Markdown', async (t) => {
  t.equal(formatTable(['a', 'b'], [['c', 'd']]), '| a | b |\n| --- | ---: |\n| c | d |')
})
