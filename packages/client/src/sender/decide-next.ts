import { type BatchResult, IngestError } from '@ingest/core'

/** What came of sending a batch, once. */
export type Outcome = { result: BatchResult } | { error: unknown }

/** What a sender does next. */
export type Next =
  | { what: 'settle'; result: BatchResult }
  | { what: 'drop'; reason: 'bad_request' | 'too_large' }
  /** Sends nothing at all for so long, and then the same batch. */
  | { what: 'pause'; ms: number }
  /** Sends the same batch after a pause that is never shorter than what the server asked for. */
  | { what: 'back-off'; floorMs: number }

/** How long a sender is silent after a 401 or 403, in milliseconds. */
export const unauthorizedPauseMs = 5 * 60_000

/**
 * The rules for clients, by the HTTP status alone; a gateway may send any `code`. 202 settles the batch, 400 and 413
 * drop it, 401 and 403 pause the sender for five minutes. After anything else the batch is sent again: 429, 5xx, no
 * response, and what the contract does not name, such as a 404 of a wrong url, a redirect or a page of a proxy. These
 * can be repaired, and the queue must not be lost until then.
 */
export function decideNext(outcome: Outcome): Next {
  if ('result' in outcome) return { what: 'settle', result: outcome.result }
  const { status, retryAfterSeconds = 0 } = outcome.error instanceof IngestError ? outcome.error : {}
  if (status === 400) return { what: 'drop', reason: 'bad_request' }
  if (status === 413) return { what: 'drop', reason: 'too_large' }
  if (status === 401 || status === 403) return { what: 'pause', ms: unauthorizedPauseMs }
  return { what: 'back-off', floorMs: retryAfterSeconds * 1000 }
}
