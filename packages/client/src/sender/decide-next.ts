import { type BatchResult, IngestError } from '@ingest/core'

/** The outcome of sending a batch once. */
export type Outcome = { result: BatchResult } | { error: unknown }

/** The next action of a sender. */
export type Next =
  | { action: 'settle'; result: BatchResult }
  | { action: 'drop'; reason: 'bad_request' | 'too_large' }
  /** Sends nothing for `ms`, then the same batch. */
  | { action: 'pause'; ms: number }
  /** Stops sending. */
  | { action: 'end' }
  /** Sends the same batch after a backoff of at least `floorMs`. */
  | { action: 'back-off'; floorMs: number }

/** The pause after a 401 or 403, in milliseconds. */
export const unauthorizedPauseMs = 5 * 60_000

/** The statuses after which a batch is not retried with backoff. */
const nextByStatus: Readonly<Record<number, Next>> = {
  400: { action: 'drop', reason: 'bad_request' },
  401: { action: 'pause', ms: unauthorizedPauseMs },
  403: { action: 'pause', ms: unauthorizedPauseMs },
  413: { action: 'drop', reason: 'too_large' },
}

/**
 * The rules for clients, by HTTP status alone, because a gateway may send any `code`. 202 settles the batch, 400 and
 * 413 drop it, 401 and 403 pause the sender for five minutes. Anything else is retried: 429, 5xx, no response, and
 * statuses outside of the contract, such as a 404 for a wrong url, a redirect or a proxy's page, which operators can
 * fix. Only a closed client ends the sender.
 */
export function decideNext(outcome: Outcome): Next {
  if ('result' in outcome) return { action: 'settle', result: outcome.result }
  const { status, code, retryAfterSeconds = 0 } = outcome.error instanceof IngestError ? outcome.error : {}
  const next = status === undefined ? undefined : nextByStatus[status]
  if (next) return next
  if (status === undefined && code === 'store-closed') return { action: 'end' }
  return { action: 'back-off', floorMs: retryAfterSeconds * 1000 }
}
