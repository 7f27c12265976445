import { type ErrorCode, type ErrorDetails, errorTable, IngestError } from '@ingest/core'
import { Issue } from '@ingest/core/wire'
import { problemResponse } from '../http/response.ts'

/** The error of an example. */
interface Example {
  detail: string
  details?: ErrorDetails
}

/** Of each code that a route returns, in the order of their table. */
const examples: Readonly<Partial<Record<ErrorCode, Example>>> = {
  'malformed-request': {
    detail: 'The request has no Host header.',
  },
  'repeated-header': {
    detail: 'The header content-type must not be repeated.',
  },
  'unsupported-media-type': {
    detail: 'The body must be sent with Content-Type: application/json.',
  },
  'unsupported-coding': {
    detail: 'Content-Encoding must be gzip or absent.',
  },
  'malformed-body': { detail: 'The body is not JSON.' },
  'invalid-envelope': {
    detail: 'The body must have an array "events": { "events": [ … ] }.',
  },
  'invalid-argument': {
    detail: 'limit must be a whole number from 1 to 1000.',
    details: { limit: 1000 },
  },
  'invalid-cursor': {
    detail: 'The cursor belongs to another store or project.',
  },
  'invalid-publication': {
    detail: 'The publication is invalid at "/buildId": Every map needs a buildId.',
    details: { issues: [{ code: 'required', path: '/buildId', message: 'Every map needs a buildId.' }] },
  },
  'digest-mismatch': { detail: 'Expected the digest of the bytes.' },
  unauthorized: {
    detail: 'X-Project-Id, and X-Ingestion-Key or Authorization: Bearer, must be those of an active key.',
  },
  'not-found': { detail: 'There is nothing at this path.' },
  'map-not-found': {
    detail: 'No map was published for this place and build.',
  },
  'chunk-not-found': {
    detail: 'The project has no chunk with this digest.',
  },
  'method-not-allowed': { detail: 'This path takes POST.' },
  'request-timeout': {
    detail: 'The request took too long to arrive.',
  },
  'map-frozen': {
    detail: 'The build is frozen with another map: publish under a new buildId.',
  },
  'chunk-undeclared': {
    detail: 'No manifest of the project names this chunk: publish the manifest first.',
  },
  'precondition-failed': {
    detail: 'The map does not have the digest of If-Match.',
  },
  'body-too-large': {
    detail:
      'A publication holds at most 1048576 bytes, uncompressed: publish a larger map as a manifest and upload its chunks.',
    details: { limit: 1_048_576, actual: 2_000_000 },
  },
  'chunk-too-large': {
    detail: 'A chunk holds at most 1048576 bytes: cut the map into smaller ones.',
    details: { limit: 1_048_576, actual: 2_000_000 },
  },
  'batch-too-large': {
    detail: 'A batch holds at most 262144 bytes, uncompressed: send it in parts.',
    details: { limit: 262_144, actual: 300_000 },
  },
  'too-many-events': {
    detail: 'A batch holds at most 100 events, this one 101: send it in parts.',
    details: { limit: 100, actual: 101 },
  },
  'map-quota-exceeded': {
    detail: 'Unfinished uploads of the project hold too many bytes: complete or replace them.',
    details: { limit: 2_147_483_648, actual: 2_148_000_000 },
  },
  'range-not-satisfiable': {
    detail: 'The range is outside the 31 bytes of the map.',
    details: { limit: 31 },
  },
  'rate-limited': {
    detail: 'The project is over its limit of requests: try again in 1 s.',
    details: { retryAfterSeconds: 1 },
  },
  'headers-too-large': {
    detail: 'Send at most 100 headers, of 16,384 bytes in total.',
    details: { limit: 100, actual: 101 },
  },
  'internal-error': {
    detail: 'The server failed unexpectedly: try again later.',
  },
  'store-damaged': { detail: '' },
  'disk-full': { detail: '' },
  draining: {
    detail: 'This server is shutting down: try again later.',
    details: { retryAfterSeconds: 1 },
  },
  'key-store-unavailable': {
    detail: 'Keys cannot be checked now: try again later.',
  },
  'map-replaced': { detail: 'The map was replaced: read it again.' },
  overloaded: {
    detail: 'Too many batches in flight: try again later.',
    details: { retryAfterSeconds: 1 },
  },
  'store-closed': { detail: '' },
  'store-failed': { detail: '' },
  'store-locked': {
    detail: 'Another process holds the write lock.',
    details: { retryAfterSeconds: 5 },
  },
  'store-unavailable': { detail: '' },
}

/** The codes that routes return, in the order of their table. */
export const codesOfRoutes = Object.keys(examples) as ErrorCode[]

/** What a code means and what to do, in Markdown. */
export function meaningOf(code: ErrorCode): string {
  const { isOutcomeUnknown } = new IngestError(code, '')
  return `${errorTable[code].meaning}${isOutcomeUnknown ? '; outcome unknown' : ''}`
}

/** The problem document of a code, as the server writes it. */
export function problemExample(code: ErrorCode): Record<string, unknown> {
  const { detail = '', details } = examples[code] ?? {}
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
    const { status } = errorTable[code]
    groups.set(status, [...(groups.get(status) ?? []), code])
  }
  return new Map([...groups].sort(([a], [b]) => a - b))
}
