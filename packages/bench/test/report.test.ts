import t from 'tap'
import type { Context } from '../src/contenders/open-contender.js'
import { growthSection } from '../src/parts/growth.js'
import { batchesSection, floorOf, gameServerSentence, measureStandby, standbySection } from '../src/parts/loads.js'
import { contendersOfRound, isComplete, parseCount, plans } from '../src/plan.js'
import { formatNumber, formatSummary, formatTable } from '../src/report/format.js'
import { makePlot } from '../src/report/plot.js'
import { makeReport } from '../src/report/report.js'
import { formatThreads, rate, ratioOf, speedCells } from '../src/report/rounds.js'
import { percentile, summarize, summarizeRatios } from '../src/report/statistics.js'

t.test('a summary has the median and the range, in any order of values', async (t) => {
  t.strictSame(summarize([3, 1, 10]), { median: 3, min: 1, max: 10, count: 3 })
  t.strictSame(summarize([10, 4, 1, 2]), { median: 3, min: 1, max: 10, count: 4 })
  t.strictSame(summarize([7]), { median: 7, min: 7, max: 7, count: 1 })
  t.throws(() => summarize([]))
})

t.test('summarizing does not change the values', async (t) => {
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

t.test('numbers have three significant digits', async (t) => {
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
  t.equal(formatSummary({ median: 0.5, min: 0.4, max: 0.6, count: 3 }), '0.5 (0.4–0.6)')
  t.equal(formatSummary({ median: 7, min: 7, max: 7, count: 1 }), '7')
})

t.test('a table is Markdown', async (t) => {
  t.equal(formatTable(['a', 'b'], [['c', 'd']]), '| a | b |\n| --- | ---: |\n| c | d |')
})

function run(eventsPerSecond: number, microseconds?: number) {
  const seed: [number, number, number, number, number] = [1, 2, 3, 4, 5]
  const latencies = { p50Ms: 2, p90Ms: 4, p99Ms: 8, maxMs: 9 }
  const processor = microseconds === undefined ? {} : { processor: { main: microseconds } }
  return { eventsPerSecond, events: 100, batches: 1, ...latencies, loadCpu: 0.5, seed, answered: 1, ...processor }
}

t.test('ratios use rounds that have both runs; repeats are new events to the floor', async (t) => {
  const floor = { new: run(1000), '1x16': run(100, 10) }
  const ours = { new: run(900), 'repeats-1': run(720), '1x16': run(34, 41) }
  const of = (load: 'repeats-1' | '1x16') =>
    ratioOf([{ floor, ours }], (round) => round.ours[load], floorOf(load), rate)?.median
  t.strictSame([of('1x16'), of('repeats-1')], [0.34, 0.72])
  const rounds: Record<string, ReturnType<typeof run>>[] = [
    { a: run(100), b: run(100) },
    { a: run(8), b: run(10) },
    { a: run(900), b: run(1000) },
    { b: run(10) },
  ]
  const pick = (name: string) => (round: (typeof rounds)[number]) => round[name]
  t.strictSame(ratioOf(rounds, pick('a'), pick('b'), rate), { median: 0.9, min: 0.8, max: 1, count: 3 })
  t.equal(ratioOf(rounds, pick('a'), pick('c'), rate), undefined)
})

t.test('a report shows rates, processor time by thread and latency, or a dash', async (t) => {
  const rounds = [3, 5, 4].map((microseconds) => ({ ours: run(1000, microseconds), floor: run(2000) }))
  const cells = speedCells(
    rounds,
    (round) => round.ours,
    (round) => round.floor,
  )
  t.strictSame(cells, ['1,000 (1,000–1,000)', '0.5 (0.5–0.5)', '4 (3–5)', '–', 'main 4', '2 (2–2)', '8 (8–8)'])
  t.equal(formatThreads([undefined]), '–')
  t.equal(formatThreads([{ writer: 1, main: 2, index: 0, database: 3 }]), 'main 2, writer 1, database 3')
})

t.test('batches are compared with the floor and with an insert into PostgreSQL of the same round', async (t) => {
  const contenders = ['floor', 'ours', 'postgres'].map((name) => ({ name, title: name, file: '' }))
  const rounds = [
    { floor: { '20x64': run(1000, 10) }, ours: { '20x64': run(500, 20) }, postgres: { '20x64': run(100, 80) } },
    { floor: { '20x64': run(2000, 10) }, ours: { '20x64': run(800, 20) } },
  ]
  const section = batchesSection(rounds, contenders)
  t.match(section, '| 20, 64 | ours | 650 (500–800) | 0.45 (0.4–0.5) | 20 (20–20) | 2 (2–2) | main 20 |')
  t.match(section, '| 5 | 0.25 |', 'the ratios of PostgreSQL, which has one round')
  t.match(section, 'at 0.45 of the rate of the floor, and at 5 times that of Fastify + PostgreSQL.')
  t.equal(gameServerSentence([{ floor: { '20x64': run(1) } }]), undefined)
  t.match(standbySection(rounds, contenders), '| 20, 64 | ours | 650 (500–800) | 5 |')
})

t.test('growth says whether the largest store exceeds the memory', async (t) => {
  const filled = { size: 10e6, eventsPerSecond: 1, logBytes: 1, idBytes: 1 }
  const sectionOf = (last: typeof filled) => growthSection({ filled: [filled, last], rounds: [], skipped: [] }, [])
  t.notMatch(sectionOf(filled), 'more than the memory')
  t.match(
    sectionOf({ ...filled, logBytes: 1e9 }),
    'The largest store takes 10000000 GB on disk, more than the memory of',
  )
})

t.test('a standby that cannot start is left out with its reason', async (t) => {
  const lines: string[] = []
  const postgres = { started: { pid: 1 }, call: () => Promise.reject(new Error('spawn pg_basebackup ENOENT')) }
  const contenders = [{ name: 'postgres', title: '', file: '', hasDatabase: true }]
  const context = { directory: '', contenders, postgres, log: (line: string) => lines.push(line) }
  t.equal(await measureStandby(context as unknown as Context, plans.smoke), undefined)
  t.strictSame(lines, ['the standby is left out: spawn pg_basebackup ENOENT'])
})

t.test('peers and contenders that store in PostgreSQL are measured in every third round', async (t) => {
  const contenders = [
    { name: 'floor', title: '', file: '' },
    { name: 'ours', title: '', file: '' },
    { name: 'ours-postgres', title: '', file: '', hasDatabase: true },
    { name: 'sqlite', title: '', file: '', isPeer: true },
  ]
  const rounds = [0, 1, 2, 3].map((round) => contendersOfRound(contenders, round).map(({ name }) => name))
  t.strictSame(rounds, [
    ['floor', 'ours', 'ours-postgres', 'sqlite'],
    ['ours', 'floor'],
    ['floor', 'ours'],
    ['ours', 'ours-postgres', 'sqlite', 'floor'],
  ])
})

t.test('only a full run with all parts and contenders replaces the report', async (t) => {
  t.ok(isComplete(plans.full))
  t.ok(isComplete({ ...plans.full, only: ['floor', 'ours', 'ours-postgres', 'postgres'], rounds: 1 }))
  t.notOk(isComplete(plans.quick))
  t.notOk(isComplete({ ...plans.full, parts: ['throughput'] }))
  t.notOk(isComplete({ ...plans.full, only: ['ours'] }))
})

t.test('a report has a section for each measured part, and a complete one has the plot', async (t) => {
  const contenders = [
    { name: 'floor', title: 'Floor', file: '' },
    { name: 'ours', title: 'Ingest & more', file: '' },
    { name: 'sqlite', title: 'SQLite', file: '', missing: 'it is not installed' },
  ]
  const results = { throughput: [{ floor: run(2000), ours: run(1000, 4) }] }
  const facts = { machine: [{ label: 'Node', value: '20' }], versions: [] }
  const record = { measuredAt: '2026-11-27T08:00:00.000Z', command: 'pnpm bench', contenders, results, ...facts }
  const quick = makeReport({ ...record, plan: plans.quick })
  t.match(quick, /^# Benchmark\n\nMeasured on 2026-11-27 by `pnpm bench`/)
  t.match(quick, '| Ingest & more | 1,000 | 0.5 | 4 |')
  t.match(quick, '| SQLite | not measured: it is not installed |')
  t.match(quick, 'This was a quick look')
  t.notMatch(quick, /## Growth|benchmark\.svg/)
  t.match(makeReport({ ...record, plan: plans.full }), '![Events a second](benchmark.svg)')
  const plot = makePlot({ ...record, plan: plans.full })
  t.match(plot, /Ingest &amp; more.*<rect .*width="225\.0"/s)
  t.notMatch(plot, 'SQLite')
})

t.test('counts may be written in thousands and millions', async (t) => {
  t.strictSame(['0', '500', '250k', '1.5M'].map(parseCount), [0, 500, 250_000, 1_500_000])
  for (const text of ['', '-1', '10m', 'M', '1e6']) t.throws(() => parseCount(text), /is not a count/, text)
})
