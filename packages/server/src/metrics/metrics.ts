import type { EmbeddedIngest } from '@ingest/core'
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { RequestRecord } from '../http/request-record.ts'
import { createConsumerMetrics } from './consumer-metrics.ts'
import { type MetricFactory, metricsIn } from './define-metrics.ts'
import { createHttpMetrics } from './http-metrics.ts'
import { createProjectMetrics } from './project-metrics.ts'
import { createStoreMetrics, measureTimeoutMs } from './store-metrics.ts'

/** Options of `createMetrics`. */
export interface MetricsOptions {
  /** Maximum number of projects with a label of their own; the others share the label `other`. Default: 100. */
  projectsMax?: number
  /**
   * The registry of prom-client that holds the metrics, of one Ingest at most. Serve `render()`, which renders all of it:
   * `register.metrics()` does not measure the store and its consumers. Default: a new registry.
   */
  register?: Registry
  /** Whether to add the `nodejs_…` and `process_…` metrics: `false` for a registry that has them. Default: true. */
  defaultMetrics?: boolean
}

/** The metrics of one Ingest and the handlers that use them. */
export interface Metrics {
  /**
   * The metrics in the text format of the registry, by default that of Prometheus. Concurrent calls share one
   * rendering. Takes at most 2 seconds: if the store does not respond in time, `ingest_store_up` is 0 and its other
   * metrics are missing.
   */
  render(): Promise<string>
  /** The `Content-Type` of what `render()` returns. */
  readonly contentType: string
  /** Receives the reports of the handlers. */
  requests: RequestMetrics
}

/** The metrics that handlers report. */
export interface RequestMetrics {
  begin(): void
  end(record: RequestRecord): void
}

/** Starts to measure an Ingest. Pass the result to `createHandler` or `serve`, and to `createAdminHandler`. */
export function createMetrics(
  ingest: Pick<EmbeddedIngest, 'observe' | 'measure' | 'checkReady' | 'listAllConsumers'>,
  { projectsMax = 100, register: registry = new Registry(), defaultMetrics = true }: MetricsOptions = {},
): Metrics {
  // first, as it throws if the registry has them
  if (defaultMetrics) collectDefaultMetrics({ register: registry })
  const factory = metricsIn(registry)
  const projects = createProjectMetrics(factory, projectsMax)
  const http = createHttpMetrics(factory)
  const store = createStoreMetrics(registry, ingest, measureTimeoutMs)
  const consumers = createConsumerMetrics(factory, ingest, measureTimeoutMs)
  ingest.observe({
    onBatch(report) {
      projects.countBatch(report)
      http.countSteps(report)
    },
  })
  observeCommits(ingest, factory)
  return {
    render: shareCalls(async () => {
      await Promise.all([store.collect(), consumers.collect()])
      return registry.metrics()
    }),
    // the owner of the registry may change its format later
    get contentType() {
      return registry.contentType
    },
    requests: {
      begin: http.begin,
      end(record) {
        http.end(record)
        projects.countRequest(record)
      },
    },
  }
}

function observeCommits(ingest: Pick<EmbeddedIngest, 'observe'>, { histogram }: MetricFactory): void {
  const durations = histogram(
    'ingest_commit_duration_seconds',
    'Commits of the store, until they are durable.',
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30],
  )
  const requests = histogram(
    'ingest_commit_requests',
    'Requests that were committed together.',
    [1, 2, 4, 8, 16, 32, 64, 128, 256],
  )
  ingest.observe({
    onCommit(commit) {
      durations.observe(commit.durationMs / 1000)
      requests.observe(commit.requests)
    },
  })
}

/** A function whose concurrent calls share one call of `run`. */
function shareCalls<T>(run: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= run().finally(() => {
      running = undefined
    })
    return running
  }
}
