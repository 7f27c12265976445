/** What can be wrong with a part of an event, a publication or a chunk: a closed set. */
export type IssueCode =
  | 'digest_mismatch'
  | 'invalid_format'
  | 'invalid_type'
  | 'not_allowed'
  | 'not_object'
  | 'out_of_range'
  | 'project_mismatch'
  | 'required'
  | 'too_deep'
  | 'too_long'
  | 'too_short'
  | 'undeclared'

/** What is wrong with one value: `{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }`. */
export interface Issue {
  code: IssueCode
  /** A JSON Pointer (RFC 6901) inside the event, publication or chunk; the empty string is the whole. */
  path: string
  /** A sentence for people. It never contains the value. */
  message: string
}

/**
 * Title and retryability of every error code, grouped by origin. Codes are stable within a major version; the server
 * sends them as `code`, and the client throws them again. A rejected operation has changed nothing, but
 * that a publication may have recorded or dropped its manifest, except with the codes whose `outcome` is unknown: it may
 * have been completed, and repeating it is safe.
 */
const errors = {
  // Arguments and cursors of any call.
  'invalid-argument': { title: 'Invalid argument', retryable: false },
  'invalid-cursor': { title: 'Invalid cursor', retryable: false },
  'internal-error': { title: 'Internal error', retryable: true, outcome: 'unknown' },
  // Batches of events.
  'malformed-body': { title: 'Malformed body', retryable: false },
  'invalid-envelope': { title: 'Invalid envelope', retryable: false },
  'batch-too-large': { title: 'Batch too large', retryable: false },
  'too-many-events': { title: 'Too many events', retryable: false },
  // Maps and chunks.
  'invalid-publication': { title: 'Invalid publication', retryable: false },
  'precondition-failed': { title: 'Precondition failed', retryable: false },
  'map-not-found': { title: 'Map not found', retryable: false },
  'map-frozen': { title: 'Map frozen', retryable: false },
  'map-replaced': { title: 'Map replaced', retryable: true },
  'map-quota-exceeded': { title: 'Map quota exceeded', retryable: false },
  'chunk-not-found': { title: 'Chunk not found', retryable: false },
  'chunk-too-large': { title: 'Chunk too large', retryable: false },
  'chunk-undeclared': { title: 'Chunk undeclared', retryable: false },
  'digest-mismatch': { title: 'Digest mismatch', retryable: false },
  // Keys.
  unauthorized: { title: 'Unauthorized', retryable: false },
  'unknown-key': { title: 'Unknown key', retryable: false },
  'key-store-unavailable': { title: 'Key store unavailable', retryable: true },
  // The store, and the capacity of the process.
  'store-missing': { title: 'Store missing', retryable: false },
  'store-locked': { title: 'Store locked', retryable: true },
  'store-incompatible': { title: 'Store incompatible', retryable: false },
  'store-damaged': { title: 'Store damaged', retryable: false },
  'store-unavailable': { title: 'Store unavailable', retryable: true, outcome: 'unknown' },
  'store-failed': { title: 'Store failed', retryable: true, outcome: 'unknown' },
  'store-closed': { title: 'Store closed', retryable: true },
  'disk-full': { title: 'Disk full', retryable: true },
  overloaded: { title: 'Overloaded', retryable: true },
  // HTTP requests, by the server.
  'malformed-request': { title: 'Malformed request', retryable: false },
  'not-found': { title: 'Not found', retryable: false },
  'method-not-allowed': { title: 'Method not allowed', retryable: false },
  'headers-too-large': { title: 'Request headers too large', retryable: false },
  'repeated-header': { title: 'Repeated header', retryable: false },
  'unsupported-coding': { title: 'Unsupported content coding', retryable: false },
  'unsupported-media-type': { title: 'Unsupported media type', retryable: false },
  'body-too-large': { title: 'Body too large', retryable: false },
  'range-not-satisfiable': { title: 'Range not satisfiable', retryable: false },
  'rate-limited': { title: 'Rate limited', retryable: true },
  'request-timeout': { title: 'Request timeout', retryable: true, outcome: 'unknown' },
  draining: { title: 'Draining', retryable: true },
  // Connections and sources, by the client.
  'connection-failed': { title: 'Connection failed', retryable: true, outcome: 'unknown' },
  'unexpected-response': { title: 'Unexpected response', retryable: false, outcome: 'unknown' },
  'source-changed': { title: 'Source changed', retryable: true, outcome: 'unknown' },
} as const satisfies Record<string, { title: string; retryable: boolean; outcome?: 'unknown' }>

/** The stable name of an error. */
export type ErrorCode = keyof typeof errors

/** All error codes, for exhaustive tables. */
export const errorCodes = Object.keys(errors) as readonly ErrorCode[]

export interface ErrorDetails {
  /** The limit that was exceeded, in the unit that the message names. */
  limit?: number
  /** The value that exceeded `limit`. */
  actual?: number
  /** When to retry, in whole seconds. */
  retryAfterSeconds?: number
  /** The invalid parts of the input. */
  issues?: readonly Issue[]
  /** The HTTP status of the response that the error stands for. */
  status?: number
  cause?: unknown
}

/** The only error that Ingest throws on purpose: decide by `code`; `message` says what to do about it. */
export class IngestError extends Error {
  override readonly name = 'IngestError'
  readonly code: ErrorCode
  readonly limit: number | undefined
  readonly actual: number | undefined
  readonly retryAfterSeconds: number | undefined
  readonly issues: readonly Issue[] | undefined
  /** The HTTP status of the response for which a client throws this; undefined without a response. */
  readonly status: number | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.code = code
    this.limit = details.limit
    this.actual = details.actual
    this.retryAfterSeconds = details.retryAfterSeconds
    this.issues = details.issues
    this.status = details.status
  }

  /** A short text for people, the same for every error with this code. */
  get title(): string {
    return errors[this.code].title
  }

  /** Whether the same call may succeed later, unchanged. The status of a response decides before the code. */
  get retryable(): boolean {
    const { status } = this
    return status === undefined ? errors[this.code].retryable : status === 408 || status === 429 || status >= 500
  }

  /**
   * Whether the rejected operation may have been completed all the same: repeating it is safe. With all other codes, it has
   * changed nothing but an unfinished manifest.
   */
  get isOutcomeUnknown(): boolean {
    return 'outcome' in errors[this.code]
  }
}
