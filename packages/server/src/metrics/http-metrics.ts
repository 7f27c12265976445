import type { ErrorCode } from '@ingest/core'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { RequestRecord } from '../http/request-record.ts'
import { createHistogram, type FastHistogram } from './histogram.ts'

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
  steps: FastHistogram
}

/** The metrics of requests. Every label is one of a small set. */
export function createHttpMetrics(registry: Registry): HttpMetrics {
  const registers = [registry]
  // by route, method and status
  const requests = new Map<string, number>()
  const problems = new Map<string, number>(problemsShown.map((code) => [code, 0]))
  let inFlight = 0
  const durations = createHistogram({
    name: 'ingest_http_request_duration_seconds',
    help: 'Requests from their headers to the end of their response.',
    labelName: 'route',
    buckets: requestBuckets,
  })
  const steps = createHistogram({
    name: 'ingest_batch_step_duration_seconds',
    help: 'The steps of a batch.',
    labelName: 'step',
    buckets: stepBuckets,
  })
  new Counter({
    name: 'ingest_http_requests_total',
    help: 'Requests whose response has ended.',
    registers,
    labelNames: ['route', 'method', 'status'],
    collect() {
      this.reset()
      for (const [key, count] of requests) {
        const [route = '', method = '', status = ''] = key.split(' ')
        this.inc({ route, method, status }, count)
      }
    },
  })
  new Counter({
    name: 'ingest_http_problems_total',
    help: 'Requests refused with an error, by its code.',
    registers,
    labelNames: ['code'],
    collect() {
      this.reset()
      for (const [code, count] of problems) this.inc({ code }, count)
    },
  })
  new Gauge({
    name: 'ingest_http_requests_in_flight',
    help: 'Requests whose response has not ended.',
    registers,
    collect() {
      this.set(inFlight)
    },
  })
  registry.registerMetric(durations.metric)
  registry.registerMetric(steps.metric)

  return {
    steps,
    begin() {
      inFlight++
    },
    end(record) {
      inFlight--
      const { route, method, status, code, startedAt, endedAt } = record
      const key = `${route} ${methods.has(method) ? method : 'other'} ${status}`
      requests.set(key, (requests.get(key) ?? 0) + 1)
      durations.observe((endedAt - startedAt) / 1000, route)
      if (code !== undefined) problems.set(code, (problems.get(code) ?? 0) + 1)
      const { outcome, authenticatedAt, bodyAt, handledAt } = record
      if (outcome === undefined || authenticatedAt === undefined || bodyAt === undefined) return
      steps.observe((authenticatedAt - startedAt) / 1000, 'authenticate')
      steps.observe((bodyAt - authenticatedAt) / 1000, 'body')
      if (handledAt !== undefined) steps.observe((endedAt - handledAt) / 1000, 'respond')
    },
  }
}
