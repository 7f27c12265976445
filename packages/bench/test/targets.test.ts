import t from 'tap'
import type { Results } from '../src/run-benchmark.js'
import { growthRatio, judgeTargets } from '../src/targets.js'

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
    serverCpu: 1,
    seed: [1, 2, 3, 4] as [number, number, number, number],
    answered: 1,
    stored: 0,
  }
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
  const rounds = [0.4, 0.6, 0.55].map((share) => ({ floor: rate(1000), ours: rate(1000 * share) }))
  t.strictSame(verdicts({ throughput: rounds }), ['reached: HTTP, durable, against a server that only parses'])
  const slower = [0.4, 0.6, 0.45].map((share) => ({ floor: rate(1000), ours: rate(1000 * share) }))
  t.strictSame(verdicts({ throughput: slower }), ['missed: HTTP, durable, against a server that only parses'])
})

t.test('runs that are too short are not judged', async (t) => {
  const throughput = [{ floor: rate(1000), ours: rate(900) }]
  t.match(verdicts({ throughput }, { seconds: 0.1 }), [/^measured too small to judge/])
})

t.test('a filled store is compared with the empty one of the same round', async (t) => {
  const rounds = [
    { ours: { 0: rate(100), 10000000: rate(90) } },
    { ours: { 0: rate(10), 10000000: rate(7) } },
    { ours: { 0: rate(1000), 10000000: rate(800) } },
  ]
  const results = { growth: { filled: [], skipped: [], rounds } }
  t.strictSame(growthRatio(results, 'ours', 10e6), { median: 0.8, min: 0.7, max: 0.9, count: 3 })
  t.equal(growthRatio(results, 'ours', 50e6), undefined)
  t.strictSame(verdicts(results), ['reached: with 10 M events stored, against none'])
})

t.test('memory is what the largest store has more than the empty one, for each id', async (t) => {
  const run = (stored: number, loadedBytes: number) => ({ ...rate(1), stored, loadedBytes })
  const growth = {
    filled: [{ size: 10e6, eventsPerSecond: 1, logBytes: 400, idBytes: 30 }],
    skipped: [],
    rounds: [{ ours: { 0: run(0, 80e6), 10000000: run(10e6, 100e6) } }],
  }
  const found = judgeTargets({ growth }, plan).filter(({ unit, found }) => unit === ' bytes' && found)
  t.strictSame(
    found.map(({ found, verdict }) => [found?.median, verdict]),
    [
      [2, 'reached'],
      [30, 'reached'],
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
