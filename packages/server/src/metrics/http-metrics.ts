import type { ErrorCode } from '@ingest/core'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { RequestRecord } from '../http/request-record.ts'

/** From a look-up in memory to a slow disk. */
const stepBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** The same, up to a long poll. */
const requestBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60]

/** These exist before the first of them, so that a rate sees it. */
const problemsShown: readonly ErrorCode[] = [
  'disk-full',
  'internal-error',
  'overloaded',
  'rate-limited',
  'store-failed',
  'store-unavailable',
  'unauthorized',
]

/** Methods that are a label; the others share one. */
const methods: ReadonlySet<string> = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

export interface HttpMetrics {
  begin(): void
  /** Counts a request whose response has ended. */
  end(record: RequestRecord): void
  /** The steps of batches. */
  steps: Histogram<'step'>
}

/** The metrics of requests. Every label is one of a small set. */
export function createHttpMetrics(registry: Registry): HttpMetrics {
  const registers = [registry]
  const durations = new Histogram({
    name: 'ingest_http_request_duration_seconds',
    help: 'Requests from their headers to the end of their response.',
    registers,
    labelNames: ['route'],
    buckets: requestBuckets,
  })
  const steps = new Histogram({
    name: 'ingest_batch_step_duration_seconds',
    help: 'The steps of a batch.',
    registers,
    labelNames: ['step'],
    buckets: stepBuckets,
  })
  const requests = new Counter({
    name: 'ingest_http_requests_total',
    help: 'Requests whose response has ended.',
    registers,
    labelNames: ['route', 'method', 'status'],
  })
  const problems = new Counter({
    name: 'ingest_http_problems_total',
    help: 'Requests refused with an error, by its code.',
    registers,
    labelNames: ['code'],
  })
  for (const code of problemsShown) problems.inc({ code }, 0)
  const inFlight = new Gauge({
    name: 'ingest_http_requests_in_flight',
    help: 'Requests whose response has not ended.',
    registers,
  })

  return {
    steps,
    begin() {
      inFlight.inc()
    },
    end(record) {
      inFlight.dec()
      const { route, method, status, code, startedAt, endedAt } = record
      requests.inc({ route, method: methods.has(method) ? method : 'other', status })
      durations.observe({ route }, (endedAt - startedAt) / 1000)
      if (code !== undefined) problems.inc({ code })
      const { outcome, authenticatedAt, bodyAt, handledAt } = record
      if (outcome === undefined || authenticatedAt === undefined || bodyAt === undefined) return
      steps.observe({ step: 'authenticate' }, (authenticatedAt - startedAt) / 1000)
      steps.observe({ step: 'body' }, (bodyAt - authenticatedAt) / 1000)
      if (handledAt !== undefined) steps.observe({ step: 'respond' }, (endedAt - handledAt) / 1000)
    },
  }
}
