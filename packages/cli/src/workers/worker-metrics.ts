import type { MetricsJson } from '@ingest/server'

/** Collects the metrics of a worker. Undefined if it does not respond in time. */
export type CollectMetrics = () => Promise<MetricsJson | undefined>

/** The metrics of all workers. */
export interface WorkerMetrics {
  /** Sums, in the text format of Prometheus, and how many workers responded. */
  render(): Promise<string>
  /** Keeps the counters of a worker that has ended, as they were collected last: a sum must not fall. */
  retire(id: number): void
}

interface Metric {
  name: string
  type: string
  aggregator: string
  values: { metricName?: string; labels: Record<string, unknown>; value: number }[]
}

/** The metrics of the workers that `listWorkers` returns, by id. */
export function createWorkerMetrics(listWorkers: () => ReadonlyMap<number, CollectMetrics>): WorkerMetrics {
  const last = new Map<number, MetricsJson>()
  let retired: MetricsJson = []
  let restarts = 0
  return {
    async render() {
      const { renderMetrics } = await import('@ingest/server')
      const workers = [...listWorkers()]
      const collected = await Promise.all(
        workers.map(async ([id, collect]) => {
          const metrics = await collect()
          if (metrics) last.set(id, metrics)
          return metrics
        }),
      )
      const silent = workers.filter((_, i) => !collected[i]).map(([id]) => sumsOf(last.get(id) ?? []))
      const responding = collected.filter((metrics) => metrics !== undefined)
      return renderMetrics([...responding, ...silent, retired, ownMetrics(responding.length, silent.length, restarts)])
    },
    retire(id) {
      restarts++
      retired = addSums(retired, sumsOf(last.get(id) ?? []))
      last.delete(id)
    },
  }
}

function ownMetrics(responding: number, silent: number, ended: number): MetricsJson {
  const workers = [
    { labels: { state: 'responding' }, value: responding },
    { labels: { state: 'silent' }, value: silent },
  ]
  return [
    {
      name: 'ingest_workers',
      help: 'Workers, by whether they responded to this scrape. The others have only their last counters in it.',
      type: 'gauge',
      aggregator: 'sum',
      values: workers,
    },
    {
      name: 'ingest_workers_ended_total',
      help: 'Workers that ended while the server was running.',
      type: 'counter',
      aggregator: 'sum',
      values: [{ labels: {}, value: ended }],
    },
  ]
}

/** What only grows. */
function sumsOf(metrics: MetricsJson): MetricsJson {
  return (metrics as Metric[]).filter(
    ({ type, aggregator }) => (type === 'counter' || type === 'histogram') && aggregator === 'sum',
  )
}

function addSums(total: MetricsJson, more: MetricsJson): MetricsJson {
  const metrics = new Map<string, Metric>()
  for (const metric of [...total, ...more] as Metric[]) {
    const values = new Map<string, Metric['values'][number]>()
    for (const each of [...(metrics.get(metric.name)?.values ?? []), ...metric.values]) {
      const key = JSON.stringify([each.metricName, each.labels])
      values.set(key, { ...each, value: each.value + (values.get(key)?.value ?? 0) })
    }
    metrics.set(metric.name, { ...metric, values: [...values.values()] })
  }
  return [...metrics.values()]
}
