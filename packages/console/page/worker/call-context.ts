import type { Api } from '../api/api.ts'

/** What a call of the worker works with. */
export interface CallContext<Progress = never> {
  api: Api
  /** Aborts when the page cancels the call. */
  signal: AbortSignal
  onProgress(progress: Progress): void
}
