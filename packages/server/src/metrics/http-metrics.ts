import type { BatchReport, ErrorCode } from '@ingest/core'
import type { RequestRecord } from '../http/request-record.ts'
import type { MetricFactory } from './define-metrics.ts'

/** In seconds, from an in-memory lookup to a slow disk. */
const stepBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** In seconds, up to a long poll. */
const requestBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60]
/** In seconds, dense around 250 ms, the objective of docs/alerts.yml. */
const batchBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1, 2.5, 10]

/** These series exist before their first increment, so that a rate includes it. */
const problemsShown: readonly ErrorCode[] = [
  'disk-full',
  'internal-error',
  'overloaded',
  'rate-limited',
  'store-failed',
  'store-unavailable',
  'unauthorized',
]

export const batchRoute = '/v1/events/batch'
/** The statuses of batches that count for the objective: the others are caused by the client. */
const batchStatuses: ReadonlySet<number> = new Set([202, 500, 503])

/** Methods with a label of their own; the others share one. */
const methods: ReadonlySet<string> = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

export interface HttpMetrics {
  begin(): void
  /** Counts a request whose response has ended. */
  end(record: RequestRecord): void
  /** Records the steps of a batch in the Ingest. */
  countSteps(report: BatchReport): void
}

/** The metrics of requests. Every label has a small set of values. */
export function createHttpMetrics({ counter, gauge, histogram }: MetricFactory): HttpMetrics {
  const durations = histogram(
    'ingest_http_request_duration_seconds',
    'Requests from their headers to the end of their response.',
    requestBuckets,
    'route',
  )
  const batches = histogram(
    'ingest_batch_duration_seconds',
    'Batches with a 202 or a 5xx, without the arrival of the body.',
    batchBuckets,
    'status',
  )
  for (const status of batchStatuses) batches.zero({ status })
  const steps = histogram('ingest_batch_step_duration_seconds', 'The steps of a batch.', stepBuckets, 'step')
  const requests = counter(
    'ingest_http_requests_total',
    'Requests whose response has ended.',
    'route',
    'method',
    'status',
  )
  const problems = counter('ingest_http_problems_total', 'Requests refused with an error.', 'code')
  for (const code of problemsShown) problems.inc({ code }, 0)
  const inFlight = gauge('ingest_http_requests_in_flight', 'Requests whose response has not ended.')

  return {
    countSteps({ durationMs, appendMs }) {
      steps.observe({ step: 'decide' }, (durationMs - appendMs) / 1000)
      if (appendMs > 0) steps.observe({ step: 'append' }, appendMs / 1000)
    },
    begin() {
      inFlight.inc()
    },
    end(record) {
      inFlight.dec()
      const { method, status, code, startedAt, endedAt } = record
      const route = record.isLongPoll ? `${record.route}?wait` : record.route
      requests.inc({ route, method: methods.has(method) ? method : 'other', status })
      durations.observe({ route }, (endedAt - startedAt) / 1000)
      if (code !== undefined) problems.inc({ code })
      const { outcome, authenticatedAt, bodyAt, handledAt } = record
      if (route === batchRoute && batchStatuses.has(status)) {
        const bodyMs = bodyAt === undefined || authenticatedAt === undefined ? 0 : bodyAt - authenticatedAt
        batches.observe({ status }, (endedAt - startedAt - bodyMs) / 1000)
      }
      if (outcome === undefined || authenticatedAt === undefined || bodyAt === undefined) return
      steps.observe({ step: 'authenticate' }, (authenticatedAt - startedAt) / 1000)
      steps.observe({ step: 'body' }, (bodyAt - authenticatedAt) / 1000)
      if (handledAt !== undefined) steps.observe({ step: 'respond' }, (endedAt - handledAt) / 1000)
    },
  }
}
