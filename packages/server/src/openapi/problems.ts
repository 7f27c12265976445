import { type ErrorCode, type ErrorDetails, IngestError } from '@ingest/core'
import { problemResponse, statusByCode } from '../http/response.ts'
import { Issue } from '../routes/bodies.ts'

/** What an error code means and what to do, and the error of its example. */
interface Problem {
  meaning: string
  /** The `detail` of the example. */
  detail: string
  details?: ErrorDetails
}

/** A new error code does not compile without a row. Links are relative to docs/. */
const problems: Readonly<Record<ErrorCode, Problem | null>> = {
  'malformed-request': {
    meaning: 'not HTTP/1.1, no `Host`, invalid `Content-Length`, too many tiny chunks',
    detail: 'The request has no Host header.',
  },
  'repeated-header': {
    meaning: 'a header that must not repeat: send it once',
    detail: 'The header content-type must not be repeated.',
  },
  'unsupported-media-type': {
    meaning: 'send the `Content-Type` of the route',
    detail: 'The body must be sent with Content-Type: application/json.',
  },
  'unsupported-coding': {
    meaning: 'send gzip or no `Content-Encoding`',
    detail: 'Content-Encoding must be gzip or absent.',
  },
  'malformed-body': { meaning: 'not gzip as declared, UTF-8 or JSON', detail: 'The body is not JSON.' },
  'invalid-envelope': {
    meaning: 'no array `events`, or not 1 to 64 `chunks`',
    detail: 'The body must have an array "events": { "events": [ … ] }.',
  },
  'invalid-argument': {
    meaning: 'invalid query or precondition; empty chunk',
    detail: 'limit must be a whole number from 1 to 1000.',
    details: { limit: 1000 },
  },
  'invalid-cursor': {
    meaning: 'see [Cursors](http-api.md#cursors): read from the beginning',
    detail: 'The cursor belongs to another store or project.',
  },
  'invalid-publication': {
    meaning: 'invalid map or manifest: see `issues`',
    detail: 'The publication is invalid at "/buildId": Every map needs a buildId.',
    details: { issues: [{ code: 'required', path: '/buildId', message: 'Every map needs a buildId.' }] },
  },
  'digest-mismatch': { meaning: 'bytes do not match their digest', detail: 'Expected the digest of the bytes.' },
  unauthorized: {
    meaning: 'no active key with this scope',
    detail: 'X-Project-Id, and X-Ingestion-Key or Authorization: Bearer, must be those of an active key.',
  },
  'not-found': { meaning: 'unknown path', detail: 'There is nothing at this path.' },
  'map-not-found': {
    meaning: 'nothing published, or nothing complete',
    detail: 'No map was published for this place and build.',
  },
  'chunk-not-found': {
    meaning: 'the project has no such chunk',
    detail: 'The project has no chunk with this digest.',
  },
  'method-not-allowed': { meaning: 'use a method in `Allow`', detail: 'This path takes POST.' },
  'request-timeout': {
    meaning: 'the request arrived too slowly',
    detail: 'The request took too long to arrive.',
  },
  'map-frozen': {
    meaning: 'frozen with another map: use a new `buildId`',
    detail: 'The build is frozen with another map: publish under a new buildId.',
  },
  'chunk-undeclared': {
    meaning: 'no manifest names the chunk: PUT it first',
    detail: 'No manifest of the project names this chunk: publish the manifest first.',
  },
  'precondition-failed': {
    meaning: 'another map is complete',
    detail: 'The map does not have the digest of If-Match.',
  },
  'body-too-large': {
    meaning: 'publication: use a manifest; chunks: send fewer',
    detail:
      'A publication holds at most 1048576 bytes, uncompressed: publish a larger map as a manifest and upload its chunks.',
    details: { limit: 1_048_576, actual: 2_000_000 },
  },
  'chunk-too-large': {
    meaning: 'over 1,048,576 bytes: cut smaller chunks',
    detail: 'A chunk holds at most 1048576 bytes: cut the map into smaller ones.',
    details: { limit: 1_048_576, actual: 2_000_000 },
  },
  'batch-too-large': {
    meaning: 'over 262,144 bytes: split the batch',
    detail: 'A batch holds at most 262144 bytes, uncompressed: send it in parts.',
    details: { limit: 262_144, actual: 300_000 },
  },
  'too-many-events': {
    meaning: 'over 100 events: split the batch',
    detail: 'A batch holds at most 100 events, this one 101: send it in parts.',
    details: { limit: 100, actual: 101 },
  },
  'map-quota-exceeded': {
    meaning: 'complete or replace [unfinished uploads](maps.md#unfinished-uploads)',
    detail: 'Unfinished uploads of the project hold too many bytes: complete or replace them.',
    details: { limit: 2_147_483_648, actual: 2_148_000_000 },
  },
  'range-not-satisfiable': {
    meaning: 'the range starts beyond the end',
    detail: 'The range is outside the 31 bytes of the map.',
    details: { limit: 31 },
  },
  'rate-limited': {
    meaning: 'over a [rate limit](http-api.md#rate-limits)',
    detail: 'The project is over its limit of requests: try again in 1 s.',
    details: { retryAfterSeconds: 1 },
  },
  'headers-too-large': {
    meaning: 'over 100 headers or 16,384 bytes',
    detail: 'Send at most 100 headers, of 16,384 bytes in total.',
    details: { limit: 100, actual: 101 },
  },
  'internal-error': {
    meaning: 'a bug, or a body parser before the handler: see the log',
    detail: 'The server failed unexpectedly: try again later.',
  },
  'store-damaged': { meaning: 'a corrupt record or chunk: restore a backup', detail: '' },
  'disk-full': { meaning: 'free disk space', detail: '' },
  draining: {
    meaning: 'the server is stopping',
    detail: 'This server is shutting down: try again later.',
    details: { retryAfterSeconds: 1 },
  },
  'key-store-unavailable': {
    meaning: 'keys cannot be checked',
    detail: 'Keys cannot be checked now: try again later.',
  },
  'map-replaced': { meaning: 'replaced during the read', detail: 'The map was replaced: read it again.' },
  overloaded: {
    meaning: 'too many requests in flight, or rate limits cannot be checked',
    detail: 'Too many batches in flight: try again later.',
    details: { retryAfterSeconds: 1 },
  },
  'store-closed': { meaning: 'the embedding program closed its store', detail: '' },
  'store-failed': { meaning: '[disk failure](serve.md#disk-failure); the server ends', detail: '' },
  'store-locked': {
    meaning: 'another process holds the write lock',
    detail: 'Another process holds the write lock.',
    details: { retryAfterSeconds: 5 },
  },
  'store-unavailable': { meaning: 'the store does not respond: retry after 1 s', detail: '' },
  // no route returns these
  'unknown-key': null,
  'connection-failed': null,
  'unexpected-response': null,
  'source-changed': null,
  'store-incompatible': null,
  'store-missing': null,
}

/** The codes that routes return, in the order of their table. */
export const codesOfRoutes = (Object.keys(problems) as ErrorCode[]).filter((code) => problems[code] !== null)

/** What a code means and what to do, in Markdown. */
export function meaningOf(code: ErrorCode): string {
  const { isOutcomeUnknown } = new IngestError(code, '')
  return `${problems[code]?.meaning ?? ''}${isOutcomeUnknown ? '; outcome unknown' : ''}`
}

/** The problem document of a code, as the server writes it. */
export function problemExample(code: ErrorCode): Record<string, unknown> {
  const { detail = '', details } = problems[code] ?? {}
  const { body } = problemResponse(new IngestError(code, detail, details), '096a2fcb-49fe-4677-aa6c-e32a8c486c78')
  return JSON.parse(String(body))
}

/** The body of every error. */
export const Problem = {
  type: 'object',
  description: 'A problem document (RFC 9457).',
  required: ['type', 'title', 'status', 'detail', 'code', 'requestId', 'retryable'],
  properties: {
    type: { type: 'string', format: 'uri', description: '`urn:ingest:problem:` and the code.' },
    title: { type: 'string', description: 'The same for every error with this code.' },
    status: { type: 'integer', description: 'As in the response.' },
    code: {
      enum: codesOfRoutes,
      description: 'for programs; stable within a major version',
    },
    detail: { type: 'string', description: 'for people: what to do' },
    requestId: { type: 'string', description: 'as in `X-Request-Id`' },
    retryable: { type: 'boolean', description: 'whether the same request may succeed later' },
    issues: { type: 'array', items: Issue, description: 'what is wrong, where it applies' },
    limit: { type: 'number', description: 'the limit that was exceeded, where it applies' },
    actual: { type: 'number', description: 'the value that exceeded `limit`, where it applies' },
    retryAfter: {
      type: 'integer',
      minimum: 1,
      description: 'as in `Retry-After`: seconds, with 429 and 503',
    },
  },
} as const

/** Codes by their HTTP status, in the order of statuses. */
export function byStatus(codes: Iterable<ErrorCode>): ReadonlyMap<number, readonly ErrorCode[]> {
  const groups = new Map<number, ErrorCode[]>()
  for (const code of codes) {
    const status = statusByCode[code]
    groups.set(status, [...(groups.get(status) ?? []), code])
  }
  return new Map([...groups].sort(([a], [b]) => a - b))
}
