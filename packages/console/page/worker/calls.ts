import type { Api } from '../api/api.ts'
import { createWhereCalls } from './where.ts'

/** What a call of the worker works with. */
export interface CallContext<Progress = never> {
  api: Api
  /** Aborts when the page cancels the call. */
  signal: AbortSignal
  onProgress(progress: Progress): void
}

/** Everything the page can have its worker do. What was opened stays in memory until the worker ends. */
export function createCalls() {
  return {
    /** Whether the worker runs. */
    ping: async (_argument: null, _context: CallContext) => 'pong',
    ...createWhereCalls(),
  }
}

export type Calls = ReturnType<typeof createCalls>
export type CallName = keyof Calls
export type ArgumentOf<Name extends CallName> = Parameters<Calls[Name]>[0]
export type ResultOf<Name extends CallName> = Awaited<ReturnType<Calls[Name]>>
export type ProgressOf<Name extends CallName> =
  Parameters<Calls[Name]>[1] extends CallContext<infer Progress> ? Progress : never
