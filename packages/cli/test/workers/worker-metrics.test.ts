import type { MetricsJson } from '@ingest/server'
import t from 'tap'
import { decideRestart, quickEndsMax } from '../../src/workers/decide-restart.ts'
import { createWorkerMetrics } from '../../src/workers/worker-metrics.ts'

/** The metrics of a worker: a counter by route, and a gauge. */
function metricsOf(count: number): MetricsJson {
  const values = [
    { labels: { route: 'a' }, value: count },
    { labels: { route: 'b' }, value: 1 },
  ]
  return [
    { name: 'requests_total', help: 'h', type: 'counter', aggregator: 'sum', values },
    { name: 'in_flight', help: 'h', type: 'gauge', aggregator: 'sum', values: [{ labels: {}, value: count }] },
  ]
}

t.test('metrics of workers are summed, and no counter falls', async (t) => {
  const workers = new Map([
    [1, async () => metricsOf(10) as MetricsJson | undefined],
    [2, async () => metricsOf(5) as MetricsJson | undefined],
  ])
  const metrics = createWorkerMetrics(() => workers)
  const expect = async (lines: readonly string[], message: string) => {
    const text = await metrics.render()
    for (const line of lines) t.ok(text.split('\n').includes(line), `${message}: ${line} in ${text}`)
  }
  await expect(['requests_total{route="a"} 15', 'in_flight 15', 'ingest_workers{state="responding"} 2'], 'both')
  workers.set(2, async () => undefined)
  await expect(
    ['requests_total{route="a"} 15', 'in_flight 10', 'ingest_workers{state="silent"} 1'],
    'one is silent: its last counters stay',
  )
  metrics.retire(2)
  workers.set(2, async () => metricsOf(1))
  await expect(
    ['requests_total{route="a"} 16', 'requests_total{route="b"} 3', 'in_flight 11', 'ingest_workers_ended_total 1'],
    'it was restarted',
  )
  metrics.retire(2)
  metrics.retire(1)
  await expect(['requests_total{route="a"} 27', 'ingest_workers_ended_total 3'], 'all were restarted')
})

t.test('a worker is restarted at once, then after longer pauses, then not while it is the last', async (t) => {
  const pauses = Array.from({ length: quickEndsMax + 1 }, (_, quickEnds) => decideRestart(quickEnds, false))
  t.strictSame(pauses, [0, 100, 200, 400, 800, undefined])
  t.equal(decideRestart(quickEndsMax, true), 1600)
  t.equal(decideRestart(100, true), 5000)
})
