import { type FailureKind, type Problem, RequestError } from '../api/request-error.ts'
import type { Session } from '../api/session.ts'

// Messages between the page and its worker, in which large bodies are fetched and parsed.

/** Each call of a page has its own number. */
export type PageMessage =
  | { type: 'call'; number: number; session: Session; name: string; argument: unknown }
  | { type: 'cancel'; number: number }

/** `response` and `error` report the state of the connection and of the key, from the worker's requests. */
export type WorkerMessage =
  | { type: 'progress'; number: number; progress: unknown }
  | { type: 'result'; number: number; result: unknown }
  | { type: 'failure'; number: number; failure: Failure }
  | { type: 'response' }
  | { type: 'error'; failure: Failure }

/** A RequestError in the form that is posted. */
export interface Failure {
  kind: FailureKind
  message: string
  status: number
  problem: Problem
  retryAfterMs: number | undefined
}

export function toFailure({ kind, message, status, problem, retryAfterMs }: RequestError): Failure {
  return { kind, message, status, problem, retryAfterMs }
}

/** The inverse of `toFailure`. */
export function fromFailure({ kind, message, ...more }: Failure): RequestError {
  return new RequestError(kind, message, more)
}
