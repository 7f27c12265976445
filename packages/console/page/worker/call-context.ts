import type { Api } from '../api/api.ts'

/** The second argument of each call of the worker. */
export interface CallContext<Progress = never> {
  api: Api
  /** Aborts when the page cancels the call. */
  signal: AbortSignal
  onProgress(progress: Progress): void
}
