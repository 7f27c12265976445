import t from 'tap'
import { formatNumber, formatSummary, formatTable } from '../src/format.js'
import { parseCount, parseCounts } from '../src/parse-count.js'
import { isComplete, plans } from '../src/plan.js'
import { growthRatio, mixFloorRatio } from '../src/ratios.js'
import { formatThreads, processorCells } from '../src/report-cells.js'
import type { Results } from '../src/run-benchmark.js'
import { percentile, summarize, summarizeRatios } from '../src/statistics.js'
import { judgeTargets } from '../src/targets.js'

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

const plan = { seconds: 4 }

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

function verdicts(results: Results, of = plan): string[] {
  return judgeTargets(results, of).flatMap(({ what, verdict }) =>
    verdict === 'not measured' ? [] : [`${verdict}: ${what}`],
  )
}

t.test('what was not measured is neither reached nor missed', async (t) => {
  t.strictSame(verdicts({}), [])
})

t.test('the median of the rounds decides', async (t) => {
  const rounds = [0.4, 0.9, 0.75].map((share) => ({ floor: rate(1000), ours: rate(1000 * share) }))
  t.strictSame(verdicts({ throughput: rounds }), ['reached: events/s over HTTP, durable, against the floor'])
  const slower = [0.4, 0.9, 0.74].map((share) => ({ floor: rate(1000), ours: rate(1000 * share) }))
  t.strictSame(verdicts({ throughput: slower }), ['missed: events/s over HTTP, durable, against the floor'])
})

t.test('processor time is set against the floor of the same round: of all threads, and of the main one', async (t) => {
  const throughput = [1, 10].map((scale) => ({
    floor: { ...rate(1000), processor: { main: 1 * scale, helpers: 0.5 * scale } },
    ours: { ...rate(1000), processor: { main: 0.5 * scale, writer: 2 * scale, index: 0.5 * scale } },
  }))
  t.strictSame(verdicts({ throughput }), [
    'missed: processor time an event, against the floor (stretch: 1.5)',
    'reached: processor time an event of the main thread, against that of the floor',
    'reached: events/s over HTTP, durable, against the floor',
  ])
  const [found] = judgeTargets({ throughput }, plan)
  t.match(found?.found, { median: 2, min: 2, max: 2 })
})

t.test('mixed loads are set against new batches, or against the floor with the same load', async (t) => {
  const floor = { new: rate(1000), single: run(100, 10), 'connections-64': rate(1200) }
  const ours = {
    new: rate(900),
    'repeats-1': rate(720),
    'repeats-50': rate(666),
    again: rate(640),
    single: run(34, 41),
    'connections-64': rate(1000),
  }
  t.strictSame(verdicts({ mixed: [{ floor, ours }] }), [
    'missed: the same with 64 connections',
    'reached: events/s with 1 % repeats, against all new',
    'missed: events/s with 50 % repeats, against all new',
    'reached: events/s of whole batches sent again, against all new',
    'missed: events/s with 1 event a batch, against the floor',
    'missed: processor time an event with 1 event a batch, against the floor',
  ])
  t.equal(mixFloorRatio({ mixed: [{ floor, ours }] }, 'repeats-1')?.median, 0.72, 'repeats are new events to the floor')
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

t.test('runs that are too short are not judged', async (t) => {
  const throughput = [{ floor: rate(1000), ours: rate(900) }]
  t.match(verdicts({ throughput }, { seconds: 0.1 }), [/^measured too small to judge/])
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
  t.strictSame(verdicts(results), [
    'reached: events/s with 10 M events stored, against none',
    'missed: events/s with 100 M events stored, against none',
  ])
})

t.test('memory is what the largest store has more than the empty one, for each id', async (t) => {
  const at = (stored: number, loadedBytes: number) => ({ ...rate(1), stored, loadedBytes })
  const growth = {
    filled: [1e6, 10e6].map((size) => ({ size, eventsPerSecond: 1, logBytes: 400, idBytes: 30 })),
    skipped: [],
    rounds: [
      { ours: { 0: at(0, 80e6), 1000000: at(1e6, 200e6) } },
      { ours: { 0: at(0, 80e6), 10000000: at(10e6, 94e6) } },
    ],
  }
  const found = judgeTargets({ growth }, plan).filter(({ unit, found }) => unit === ' bytes' && found)
  t.strictSame(
    found.map(({ found, verdict }) => [found?.median, verdict]),
    [
      [1.4, 'reached'],
      [30, 'missed'],
    ],
  )
})

t.test('opening and rebuilding are judged by their size', async (t) => {
  const recovery = { opens: [{ events: 10e6, openMs: 2500 }], rebuilds: [{ events: 10e6, openMs: 5000 }] }
  t.strictSame(verdicts({ recovery }), [
    'missed: open after kill -9 under load, 10.0 M events',
    'reached: rebuild of `data/ids`, 10.0 M events',
  ])
  t.match(verdicts({ recovery: { ...recovery, opens: [{ events: 1e6, openMs: 20 }] } }), [/too small.*open/, /reached/])
})

t.test('counts may be written in thousands and millions', async (t) => {
  t.strictSame(parseCounts('0,500,250k,1.5M'), [0, 500, 250_000, 1_500_000])
  for (const text of ['', '-1', '10m', 'M', '1e6']) t.throws(() => parseCount(text), /is not a count/, text)
})
