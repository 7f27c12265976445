import type { Session } from '../api/session.ts'

// Between the page and its worker, which fetches and parses what would block the page.

/** A call of the worker: its result is posted back under the same number. */
export interface WorkerCall {
  number: number
  session: Session
  name: string
  argument: unknown
}
