import type { EmbeddedIngest } from '@ingest/core'

export interface MetricsOptions {
  /** The most projects with a label of their own; the others share the label `other`. Default: 100. */
  projectsMax?: number
}

/** The metrics of one Ingest and the handlers that use them. */
export interface Metrics {
  /** The metrics in the text format of Prometheus. */
  render(): Promise<string>
}

/** Starts to measure an Ingest. Pass the result to `createHandler` or `serve`, and to `createAdminHandler`. */
export function createMetrics(_ingest: EmbeddedIngest, _options: MetricsOptions = {}): Metrics {
  return { render: async () => '' }
}
