import type { Issue } from './validation.ts'

/**
 * Every refusal that Ingest knows, with the title that people read and whether the same call may succeed later.
 * Codes are stable within a major version; the server answers them as `code`, the client throws them again.
 */
const refusals = {
  'batch-too-large': { title: 'Batch too large', retryable: false },
  'body-too-large': { title: 'Body too large', retryable: false },
  'chunk-not-found': { title: 'Chunk not found', retryable: false },
  'chunk-too-large': { title: 'Chunk too large', retryable: false },
  'chunk-undeclared': { title: 'Chunk undeclared', retryable: false },
  'connection-failed': { title: 'Connection failed', retryable: true },
  'digest-mismatch': { title: 'Digest mismatch', retryable: false },
  'disk-full': { title: 'Disk full', retryable: true },
  draining: { title: 'Draining', retryable: true },
  'internal-error': { title: 'Internal error', retryable: true },
  'invalid-argument': { title: 'Invalid argument', retryable: false },
  'invalid-cursor': { title: 'Invalid cursor', retryable: false },
  'invalid-envelope': { title: 'Invalid envelope', retryable: false },
  'invalid-publication': { title: 'Invalid publication', retryable: false },
  'malformed-body': { title: 'Malformed body', retryable: false },
  'map-frozen': { title: 'Map frozen', retryable: false },
  'map-quota-exceeded': { title: 'Map quota exceeded', retryable: false },
  'map-not-found': { title: 'Map not found', retryable: false },
  'map-replaced': { title: 'Map replaced', retryable: true },
  'method-not-allowed': { title: 'Method not allowed', retryable: false },
  'malformed-request': { title: 'Malformed request', retryable: false },
  'not-found': { title: 'Not found', retryable: false },
  overloaded: { title: 'Overloaded', retryable: true },
  'headers-too-large': { title: 'Request headers too large', retryable: false },
  'key-store-unavailable': { title: 'Key store unavailable', retryable: true },
  'precondition-failed': { title: 'Precondition failed', retryable: false },
  'range-not-satisfiable': { title: 'Range not satisfiable', retryable: false },
  'rate-limited': { title: 'Rate limited', retryable: true },
  'repeated-header': { title: 'Repeated header', retryable: false },
  'request-timeout': { title: 'Request timeout', retryable: true },
  'source-changed': { title: 'Source changed', retryable: true },
  'store-closed': { title: 'Store closed', retryable: true },
  'store-damaged': { title: 'Store damaged', retryable: false },
  'store-failed': { title: 'Store failed', retryable: true },
  'store-incompatible': { title: 'Store incompatible', retryable: false },
  'store-locked': { title: 'Store locked', retryable: true },
  'store-missing': { title: 'Store missing', retryable: false },
  'too-many-events': { title: 'Too many events', retryable: false },
  unauthorized: { title: 'Unauthorized', retryable: false },
  'unexpected-response': { title: 'Unexpected response', retryable: false },
  'unknown-key': { title: 'Unknown key', retryable: false },
  'unsupported-coding': { title: 'Unsupported content coding', retryable: false },
  'unsupported-media-type': { title: 'Unsupported media type', retryable: false },
} as const

/** The stable name of a refusal. */
export type ErrorCode = keyof typeof refusals

/** All codes, for tables and tests that must name each of them. */
export const errorCodes = Object.keys(refusals) as readonly ErrorCode[]

/** What a refusal may carry besides its code and its sentence. */
export interface ErrorDetails {
  /** The bound that was passed, in the unit that the message names. */
  limit?: number
  /** The value that passed it. */
  actual?: number
  /** Whole seconds after which a retry is not refused for the same reason. */
  retryAfterSeconds?: number
  /** What is wrong with which part of the input. */
  issues?: readonly Issue[]
  /** The HTTP status of the response that the error stands for. */
  status?: number
  cause?: unknown
}

/** A refusal: the call was understood and not carried out, and `message` says what to do about it. */
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

  /** A short name for the kind of refusal, the same for every error with this code. */
  get title(): string {
    return refusals[this.code].title
  }

  /** Whether the same call may succeed later, unchanged: by the status of the response if there is one. */
  get retryable(): boolean {
    const { status } = this
    return status === undefined ? refusals[this.code].retryable : status === 408 || status === 429 || status >= 500
  }
}
