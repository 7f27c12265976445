import type { EmbeddedIngest } from '@ingest/core'
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import type { RequestRecord } from '../http/request-record.ts'
import { createHttpMetrics } from './http-metrics.ts'
import { createProjectMetrics } from './project-metrics.ts'
import { createStoreMetrics, measureTimeoutMs } from './store-metrics.ts'

export interface MetricsOptions {
  /** The most projects with a label of their own; the others share the label `other`. Default: 100. */
  projectsMax?: number
}

/** The metrics of one Ingest and the handlers that use them. */
export interface Metrics {
  /**
   * The metrics in the text format of Prometheus. Concurrent calls share one collection. Takes at most 2 seconds: without
   * a response of the store, `ingest_store_up` is 0 and the other metrics of the store are missing.
   */
  render(): Promise<string>
  /** For the handlers. */
  requests: RequestMetrics
}

/** What the handlers report. */
export interface RequestMetrics {
  begin(): void
  end(record: RequestRecord): void
}

/** The media type of the rendered metrics. */
export const metricsContentType: string = Registry.PROMETHEUS_CONTENT_TYPE

/** Starts to measure an Ingest. Pass the result to `createHandler` or `serve`, and to `createAdminHandler`. */
export function createMetrics(
  ingest: Pick<EmbeddedIngest, 'observe' | 'measure' | 'checkReady'>,
  { projectsMax = 100 }: MetricsOptions = {},
): Metrics {
  const registry = new Registry()
  const projects = createProjectMetrics(registry, projectsMax)
  const http = createHttpMetrics(registry)
  const store = createStoreMetrics(registry, ingest, measureTimeoutMs)
  observeBatches(ingest, registry, { projects, http })
  observeCommits(ingest, registry)
  collectDefaultMetrics({ register: registry })
  const collect = shareCalls(store.collect)
  return {
    async render() {
      await collect()
      return registry.metrics()
    },
    requests: {
      begin: http.begin,
      end(record) {
        http.end(record)
        if (record.code !== undefined) projects.countRefusal(record)
      },
    },
  }
}

function observeBatches(
  ingest: Pick<EmbeddedIngest, 'observe'>,
  registry: Registry,
  { projects, http }: { projects: ReturnType<typeof createProjectMetrics>; http: ReturnType<typeof createHttpMetrics> },
): void {
  const issues = new Counter({
    name: 'ingest_event_issues_total',
    help: 'Issues of rejected events, by code.',
    registers: [registry],
    labelNames: ['code'],
  })
  ingest.observe({
    onBatch(report) {
      projects.countBatch(report)
      http.steps.observe({ step: 'decide' }, (report.durationMs - report.appendMs) / 1000)
      if (report.appendMs > 0) http.steps.observe({ step: 'append' }, report.appendMs / 1000)
      for (const rejected of report.result.rejected) for (const { code } of rejected.issues) issues.inc({ code })
    },
  })
}

function observeCommits(ingest: Pick<EmbeddedIngest, 'observe'>, registry: Registry): void {
  const durations = new Histogram({
    registers: [registry],
    name: 'ingest_commit_duration_seconds',
    help: 'Commits of the store, from the start of the transaction to its durable end.',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30],
  })
  const requests = new Histogram({
    registers: [registry],
    name: 'ingest_commit_requests',
    help: 'Requests that were committed together.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
  })
  ingest.observe({
    onCommit(commit) {
      durations.observe(commit.durationMs / 1000)
      requests.observe(commit.requests)
    },
  })
}

/** A function whose concurrent calls share one call of `run`. */
function shareCalls(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= run().finally(() => {
      running = undefined
    })
    return running
  }
}
