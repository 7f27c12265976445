import type { AllConsumers, EmbeddedIngest } from '@ingest/core'
import type { MetricFactory } from './define-metrics.ts'
import { settleWithin } from './store-metrics.ts'

/**
 * The lag of the consumers of all projects. A scrape omits it if the store does not respond within `timeoutMs`. At most
 * one read is in flight.
 */
export function createConsumerMetrics(
  { gauge }: MetricFactory,
  ingest: Pick<EmbeddedIngest, 'listAllConsumers'>,
  timeoutMs: number,
): { collect(): Promise<void> } {
  const labels = ['project', 'consumer'] as const
  const events = gauge(
    'ingest_consumer_lag_events',
    'Unread events of a consumer; a lower bound beyond 1,000 batches, or 100,000 for all consumers.',
    ...labels,
  )
  const seconds = gauge(
    'ingest_consumer_lag_seconds',
    'Age of its oldest unread event; +Inf if its cursor is invalid.',
    ...labels,
  )
  const hidden = gauge(
    'ingest_consumers_hidden',
    'Consumers beyond the 1,000 whose lag is measured; each project beyond 1,000 counts as one.',
  )
  let reading: Promise<AllConsumers> | undefined

  return {
    async collect() {
      reading ??= ingest.listAllConsumers().finally(() => {
        reading = undefined
      })
      const all = await settleWithin(reading, timeoutMs)
      events.reset()
      seconds.reset()
      if (!all) return
      hidden.set(all.hidden)
      for (const { projectId: project, name: consumer, lag } of all.consumers) {
        if (lag) events.set({ project, consumer }, lag.events)
        seconds.set({ project, consumer }, lag?.seconds ?? Number.POSITIVE_INFINITY)
      }
    },
  }
}
