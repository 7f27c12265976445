/** Codes of the issues of an event, a publication or a chunk: a closed set. */
export const issueCodes = [
  'digest_mismatch',
  'invalid_format',
  'invalid_type',
  'not_allowed',
  'not_object',
  'out_of_range',
  'project_mismatch',
  'required',
  'too_complex',
  'too_deep',
  'too_long',
  'too_short',
  'undeclared',
] as const

/** One of `issueCodes`. */
export type IssueCode = (typeof issueCodes)[number]

/** One problem of a value: `{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }`. */
export interface Issue {
  code: IssueCode
  /** A JSON Pointer (RFC 6901) inside the event, publication or chunk; the empty string is the whole. */
  path: string
  /** A sentence for people. It never contains the value. */
  message: string
}

/** The properties of an error code. */
export interface ErrorRow {
  /** A short text for people. */
  title: string
  /** The HTTP status of its response. */
  status: number
  /** Whether the same call may succeed later, unchanged. */
  retryable: boolean
  outcome?: 'unknown'
  /** The meaning of the code and the remedy, in Markdown with links relative to docs/. */
  meaning: string
}

/**
 * Every error code, grouped by origin. Codes are stable within a major version. The server sends them as `code`, and
 * the client throws errors with the same code.
 *
 * A rejected operation has changed nothing, except that a publication may have recorded or dropped its manifest. If the
 * `outcome` of the code is `unknown`, the operation may have completed; repeating it is safe.
 */
// biome-ignore format: a table
export const errorTable = {
  // Arguments and cursors of any call.
  'invalid-argument': { title: 'Invalid argument', status: 400, retryable: false, meaning: 'invalid query or precondition; empty chunk' },
  'invalid-cursor': { title: 'Invalid cursor', status: 400, retryable: false, meaning: 'see [Cursors](http-api.md#cursors): read from the beginning' },
  'internal-error': { title: 'Internal error', status: 500, retryable: true, outcome: 'unknown', meaning: 'a bug: see the log' },
  // Batches of events.
  'malformed-body': { title: 'Malformed body', status: 400, retryable: false, meaning: 'not gzip as declared, UTF-8 or JSON' },
  'invalid-envelope': { title: 'Invalid envelope', status: 400, retryable: false, meaning: 'no array `events`, or not 1 to 64 `chunks`' },
  'batch-too-large': { title: 'Batch too large', status: 413, retryable: false, meaning: 'over 262,144 bytes: split the batch' },
  'too-many-events': { title: 'Too many events', status: 413, retryable: false, meaning: 'over 100 events: split the batch' },
  // Maps and chunks.
  'invalid-publication': { title: 'Invalid publication', status: 400, retryable: false, meaning: 'invalid map or manifest: see `issues`' },
  'precondition-failed': { title: 'Precondition failed', status: 412, retryable: false, meaning: 'another map is complete' },
  'map-not-found': { title: 'Map not found', status: 404, retryable: false, meaning: 'nothing published, or nothing complete' },
  'map-frozen': { title: 'Map frozen', status: 409, retryable: false, meaning: 'frozen with another map: use a new `buildId`' },
  'map-replaced': { title: 'Map replaced', status: 503, retryable: true, meaning: 'replaced during the read' },
  'map-quota-exceeded': { title: 'Map quota exceeded', status: 413, retryable: false, meaning: 'complete or replace [unfinished uploads](maps.md#unfinished-uploads)' },
  'chunk-not-found': { title: 'Chunk not found', status: 404, retryable: false, meaning: 'the project has no such chunk' },
  'chunk-too-large': { title: 'Chunk too large', status: 413, retryable: false, meaning: 'over 1,048,576 bytes: cut smaller chunks' },
  'chunk-undeclared': { title: 'Chunk undeclared', status: 409, retryable: false, meaning: 'no manifest names the chunk: PUT it first' },
  'digest-mismatch': { title: 'Digest mismatch', status: 400, retryable: false, meaning: 'bytes do not match their digest' },
  // Consumers.
  'consumer-not-found': { title: 'Consumer not found', status: 404, retryable: false, meaning: 'the project has no such consumer' },
  'consumer-conflict': { title: 'Consumer conflict', status: 409, retryable: false, meaning: 'the consumer is at `cursor`, not at `replaces`' },
  'consumer-quota-exceeded': { title: 'Consumer quota exceeded', status: 413, retryable: false, meaning: 'over 100 consumers: delete one' },
  // Keys.
  unauthorized: { title: 'Unauthorized', status: 401, retryable: false, meaning: 'no active key with this scope' },
  'unknown-key': { title: 'Unknown key', status: 404, retryable: false, meaning: 'the project has no such key' },
  'key-store-unavailable': { title: 'Key store unavailable', status: 503, retryable: true, meaning: 'keys cannot be checked' },
  // The store, and the capacity of the process.
  'store-missing': { title: 'Store missing', status: 500, retryable: false, meaning: 'there is no store, and it may not be created' },
  'permission-denied': { title: 'Permission denied', status: 500, retryable: false, meaning: 'a file belongs to another user, or its file system is read-only: the message names the remedy' },
  'store-locked': { title: 'Store locked', status: 503, retryable: true, meaning: 'another process holds the write lock' },
  'store-incompatible': { title: 'Store incompatible', status: 500, retryable: false, meaning: 'a foreign or incomplete store, or one of another version' },
  'store-damaged': { title: 'Store damaged', status: 500, retryable: false, meaning: 'a corrupt record or chunk: restore a backup' },
  'store-unavailable': { title: 'Store unavailable', status: 503, retryable: true, outcome: 'unknown', meaning: 'the store does not respond: retry after 1 s' },
  'store-failed': { title: 'Store failed', status: 503, retryable: true, outcome: 'unknown', meaning: '[disk failure](serve.md#disk-failure); the server ends' },
  'store-closed': { title: 'Store closed', status: 503, retryable: true, meaning: 'the embedding program closed its store' },
  'disk-full': { title: 'Disk full', status: 503, retryable: true, meaning: 'free disk space' },
  overloaded: { title: 'Overloaded', status: 503, retryable: true, meaning: 'too many requests in flight, or rate limits cannot be checked' },
  // HTTP requests, by the server.
  'malformed-request': { title: 'Malformed request', status: 400, retryable: false, meaning: 'not HTTP/1.1, no `Host`, invalid `Content-Length`, too many tiny chunks' },
  'not-found': { title: 'Not found', status: 404, retryable: false, meaning: 'unknown path' },
  'method-not-allowed': { title: 'Method not allowed', status: 405, retryable: false, meaning: 'use a method in `Allow`' },
  'headers-too-large': { title: 'Request headers too large', status: 431, retryable: false, meaning: 'over 100 headers or 16,384 bytes' },
  'repeated-header': { title: 'Repeated header', status: 400, retryable: false, meaning: 'a header that must not repeat: send it once' },
  'unsupported-coding': { title: 'Unsupported content coding', status: 400, retryable: false, meaning: 'send gzip or no `Content-Encoding`' },
  'unsupported-media-type': { title: 'Missing or unsupported media type', status: 400, retryable: false, meaning: 'send the `Content-Type` of the route' },
  'body-too-large': { title: 'Body too large', status: 413, retryable: false, meaning: 'publication: use a manifest; chunks: send fewer' },
  // 500, not 400: a sender drops a batch on a 400, and a mistake in the wiring of a server must not cost events
  'body-consumed': { title: 'Body already consumed', status: 500, retryable: false, meaning: 'mount the handler before any body parser' },
  'range-not-satisfiable': { title: 'Range not satisfiable', status: 416, retryable: false, meaning: 'the range starts beyond the end' },
  'rate-limited': { title: 'Rate limited', status: 429, retryable: true, meaning: 'over a [rate limit](http-api.md#rate-limits)' },
  'request-timeout': { title: 'Request timeout', status: 408, retryable: true, outcome: 'unknown', meaning: 'the request arrived too slowly' },
  draining: { title: 'Draining', status: 503, retryable: true, meaning: 'the server is stopping' },
  // Connections and sources, by the client.
  'connection-failed': { title: 'Connection failed', status: 502, retryable: true, outcome: 'unknown', meaning: 'no response, or a lost connection' },
  'unexpected-response': { title: 'Unexpected response', status: 502, retryable: false, outcome: 'unknown', meaning: 'not the response of an Ingest server: check the url' },
  'source-changed': { title: 'Source changed', status: 409, retryable: true, outcome: 'unknown', meaning: 'the file, or the source of a copy, changed during the call' },
} as const satisfies Record<string, ErrorRow>

/** The stable identifier of an error. */
export type ErrorCode = keyof typeof errorTable

/** All error codes, for exhaustive tables. */
export const errorCodes = Object.keys(errorTable) as readonly ErrorCode[]

/** The data of an error besides its code and message. Only members that apply to the code are set. */
export interface ErrorDetails {
  /** The limit that was exceeded, in the unit that the message names. */
  limit?: number
  /** The value that exceeded `limit`. */
  actual?: number
  /** When to retry, in whole seconds. */
  retryAfterSeconds?: number
  /** The invalid parts of the input. */
  issues?: readonly Issue[]
  /** The current cursor of the consumer, for `consumer-conflict`; null if there is no consumer. */
  cursor?: string | null
  /** The HTTP status of the response that the error describes. */
  status?: number
  cause?: unknown
}

/** The only error that Ingest throws on purpose. Branch on `code`; `message` says what to do about it. */
export class IngestError extends Error {
  override readonly name = 'IngestError'
  readonly code: ErrorCode
  readonly limit: number | undefined
  readonly actual: number | undefined
  readonly retryAfterSeconds: number | undefined
  readonly issues: readonly Issue[] | undefined
  /** The current cursor of the consumer, for `consumer-conflict`; null if there is no consumer. */
  readonly cursor: string | null | undefined
  /** The HTTP status of the response for which a client throws this; undefined if there was no response. */
  readonly status: number | undefined

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.code = code
    this.limit = details.limit
    this.actual = details.actual
    this.retryAfterSeconds = details.retryAfterSeconds
    this.issues = details.issues
    this.cursor = details.cursor
    this.status = details.status
  }

  /** Includes the message, which is not enumerable. */
  toJSON(): object {
    return { ...this, message: this.message }
  }

  /** A short text for people, the same for every error with this code. */
  get title(): string {
    return errorTable[this.code].title
  }

  /** Whether the same call may succeed later, unchanged. The status of a response takes precedence over the code. */
  get retryable(): boolean {
    const { status } = this
    return status === undefined ? errorTable[this.code].retryable : status === 408 || status === 429 || status >= 500
  }

  /**
   * Whether the rejected operation may have completed; repeating it is safe. With all other codes the operation changed
   * nothing, except that it may have recorded or dropped a manifest.
   */
  get isOutcomeUnknown(): boolean {
    return 'outcome' in errorTable[this.code]
  }
}
