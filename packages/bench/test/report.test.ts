import t from 'tap'
import { formatNumber, formatSummary, formatTable } from '../src/format.js'
import { parseCount, parseCounts } from '../src/parse-count.js'
import { isComplete, plans } from '../src/plan.js'
import { growthRatio, mixFloorRatio, mixRatio } from '../src/ratios.js'
import { formatThreads, processorCells } from '../src/report-cells.js'
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

function rate(eventsPerSecond: number) {
  return {
    eventsPerSecond,
    events: 100,
    batches: 1,
    p50Ms: 2,
    p90Ms: 4,
    p99Ms: 8,
    maxMs: 9,
    loadCpu: 0.5,
    seed: [1, 2, 3, 4, 5] as [number, number, number, number, number],
    answered: 1,
    stored: 0,
  }
}

function run(eventsPerSecond: number, microseconds: number) {
  return { ...rate(eventsPerSecond), processor: { main: microseconds } }
}

t.test('mixed loads are set against new batches, or against the floor with the same load', async (t) => {
  const floor = { new: rate(1000), single: run(100, 10) }
  const ours = { new: rate(900), 'repeats-1': rate(720), single: run(34, 41) }
  const results = { mixed: [{ floor, ours }] }
  t.equal(mixRatio(results, 'repeats-1')?.median, 0.8)
  t.equal(mixFloorRatio(results, 'single')?.median, 0.34)
  t.equal(mixFloorRatio(results, 'repeats-1')?.median, 0.72, 'repeats are new events to the floor')
})

t.test('a report shows the processor time of each thread, or a dash', async (t) => {
  const of = { median: 1.6, min: 1.5, max: 1.7, count: 3 }
  t.strictSame(processorCells([run(1000, 3), run(1000, 5), run(1000, 4)], of), ['4 (3–5)', '1.6 (1.5–1.7)', 'main 4'])
  t.strictSame(processorCells([rate(1000)], undefined), ['–', '–', '–'])
  t.equal(formatThreads([{ writer: 1, main: 2, index: 0, database: 3 }]), 'main 2, writer 1, PostgreSQL 3')
})

t.test('only a full run with all parts replaces the report that the README quotes', async (t) => {
  t.ok(isComplete(plans.full))
  t.ok(isComplete({ ...plans.full, only: ['floor', 'ours', 'postgres'], rounds: 1 }))
  t.notOk(isComplete(plans.quick))
  t.notOk(isComplete({ ...plans.full, parts: ['throughput'] }))
  t.notOk(isComplete({ ...plans.full, only: ['ours'] }))
})

t.test('a filled store is compared with the empty one of the same round', async (t) => {
  const rounds = [
    { ours: { 0: rate(100), 10000000: rate(100) } },
    { ours: { 0: rate(10), 10000000: rate(8) } },
    { ours: { 0: rate(1000), 10000000: rate(900) } },
    { ours: { 0: rate(10), 100000000: rate(5) } },
  ]
  const results = { growth: { filled: [], skipped: [], rounds } }
  t.strictSame(growthRatio(results, 'ours', 10e6), { median: 0.9, min: 0.8, max: 1, count: 3 })
  t.equal(growthRatio(results, 'ours', 50e6), undefined)
})

t.test('counts may be written in thousands and millions', async (t) => {
  t.strictSame(parseCounts('0,500,250k,1.5M'), [0, 500, 250_000, 1_500_000])
  for (const text of ['', '-1', '10m', 'M', '1e6']) t.throws(() => parseCount(text), /is not a count/, text)
})
