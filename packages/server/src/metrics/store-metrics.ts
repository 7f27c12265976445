import type { EmbeddedIngest, StoreMetric } from '@ingest/core'
import type { Registry } from 'prom-client'
import { type MetricFactory, metricsIn } from './define-metrics.ts'

/** How long a scrape waits for the store: less than the default timeout of a scrape, 10 seconds. */
export const measureTimeoutMs = 2000

/**
 * Replaces the metrics of the store in the registry with current ones. A store that fails or takes longer than
 * `timeoutMs` has none. `ingest_store_up` is then 0; it is also 0 while a batch could not be stored, because a store
 * may measure itself without its database. Only one measurement is in flight at a time, even if it never ends.
 */
export function createStoreMetrics(
  registry: Registry,
  ingest: Pick<EmbeddedIngest, 'measure' | 'checkReady'>,
  timeoutMs: number,
): { collect(): Promise<void> } {
  const metrics = metricsIn(registry)
  const up = metrics.gauge('ingest_store_up', 'Whether the store responds and could store a batch.')
  let registered: string[] = []
  let measuring: Promise<readonly StoreMetric[]> | undefined

  function measure(): Promise<readonly StoreMetric[]> {
    measuring ??= ingest.measure().finally(() => {
      measuring = undefined
    })
    return measuring
  }

  return {
    async collect() {
      const ready = ingest.checkReady().then(() => true)
      const [measured, isReady] = await Promise.all([
        settleWithin(measure(), timeoutMs),
        settleWithin(ready, timeoutMs),
      ])
      up.set(measured && isReady ? 1 : 0)
      for (const name of registered) registry.removeSingleMetric(name)
      registered = (measured ?? []).map(({ name }) => name)
      for (const metric of measured ?? []) register(metrics, metric)
    },
  }
}

/** Undefined for a promise that rejects or takes too long. */
export async function settleWithin<T>(promise: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined)
  })
  try {
    return await Promise.race([promise, timeout])
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

function register({ counter, gauge }: MetricFactory, { name, help, type, values }: StoreMetric): void {
  const labelNames = [...new Set(values.flatMap(({ labels }) => Object.keys(labels ?? {})))]
  const metric = (type === 'counter' ? counter : gauge)(name, help, ...labelNames)
  for (const { labels = {}, value } of values) metric.inc(labels, value)
}
