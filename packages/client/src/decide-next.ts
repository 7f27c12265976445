import { type BatchResult, type ErrorCode, IngestError } from '@ingest/core'

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

/** How long a sender is silent after a 401, in milliseconds. */
export const unauthorizedPauseMs = 5 * 60_000

/** The codes of the statuses 400, 413 and 401. */
const nextByCode: Partial<Record<ErrorCode, 'bad_request' | 'too_large' | 'pause'>> = {
  'batch-too-large': 'too_large',
  'body-too-large': 'too_large',
  'chunk-too-large': 'too_large',
  'digest-mismatch': 'bad_request',
  'invalid-argument': 'bad_request',
  'invalid-cursor': 'bad_request',
  'invalid-envelope': 'bad_request',
  'invalid-publication': 'bad_request',
  'malformed-body': 'bad_request',
  'malformed-request': 'bad_request',
  'repeated-header': 'bad_request',
  'too-many-events': 'too_large',
  unauthorized: 'pause',
  'unsupported-coding': 'bad_request',
  'unsupported-media-type': 'bad_request',
}

/**
 * The rules for clients. 202 settles the batch, 400 and 413 drop it, 401 is five minutes of silence; everything else is
 * sent again: 429, 5xx, no answer, and also what the contract does not name, such as a 404 of a wrong url or a page of
 * a proxy. That goes away once somebody has repaired it, and what waits for it must not be lost.
 */
export function decideNext(outcome: Outcome): Next {
  if ('result' in outcome) return { what: 'settle', result: outcome.result }
  const { error } = outcome
  if (!(error instanceof IngestError)) return { what: 'back-off', floorMs: 0 }
  const next = nextByCode[error.code]
  if (next === undefined) return { what: 'back-off', floorMs: (error.retryAfterSeconds ?? 0) * 1000 }
  return next === 'pause' ? { what: 'pause', ms: unauthorizedPauseMs } : { what: 'drop', reason: next }
}
