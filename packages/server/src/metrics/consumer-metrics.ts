import type { EmbeddedIngest } from '@ingest/core'
import type { MetricFactory } from './define-metrics.ts'
import { settleWithin } from './store-metrics.ts'

type Consumers = Awaited<ReturnType<EmbeddedIngest['listAllConsumers']>>

/**
 * The lag of the consumers of all projects. A scrape leaves it out if the store does not respond within `timeoutMs`; one
 * reading is in flight at a time.
 */
export function createConsumerMetrics(
  { gauge }: MetricFactory,
  ingest: Pick<EmbeddedIngest, 'listAllConsumers'>,
  timeoutMs: number,
): { collect(): Promise<void> } {
  const labels = ['project', 'consumer'] as const
  const events = gauge(
    'ingest_consumer_lag_events',
    'Unread events of a consumer; at least as many beyond 1,000 batches.',
    ...labels,
  )
  const seconds = gauge(
    'ingest_consumer_lag_seconds',
    'Age of its oldest unread event; +Inf if its cursor is invalid.',
    ...labels,
  )
  let reading: Promise<Consumers> | undefined

  return {
    async collect() {
      reading ??= ingest.listAllConsumers().finally(() => {
        reading = undefined
      })
      const consumers = await settleWithin(reading, timeoutMs)
      events.reset()
      seconds.reset()
      for (const { projectId: project, name: consumer, lag } of consumers ?? []) {
        if (lag) events.set({ project, consumer }, lag.events)
        seconds.set({ project, consumer }, lag?.seconds ?? Number.POSITIVE_INFINITY)
      }
    },
  }
}
