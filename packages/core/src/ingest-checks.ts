import type { Ingest } from './ingest.ts'

/** Opens an Ingest with nothing in it, independent of all others, and the project that its calls are made for. */
export type OpenIngest = () => Promise<{ ingest: Ingest; projectId: string }>

/** One promise of an {@link Ingest}, embedded or over HTTP. */
export interface IngestCheck {
  /** The promise, as a fact. */
  name: string
  /** Resolves when the promise is kept, rejects with an `AssertionError` when not; closes what it opens. */
  run(open: OpenIngest): Promise<void>
}

/** What every Ingest promises, for any test runner. */
export const ingestChecks: readonly IngestCheck[] = []
