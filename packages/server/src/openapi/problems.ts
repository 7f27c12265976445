import { type ErrorCode, type ErrorDetails, errorTable, IngestError } from '@ingest/core'
import { Issue } from '@ingest/core/wire'
import { bodyConsumed } from '../http/body.ts'
import { problemResponse } from '../http/response.ts'

const bytesMax = { limit: 1_048_576, actual: 2_000_000 }
const soon = { retryAfterSeconds: 1 }

/** An example error for each code that a route returns, in the order of the error table. */
const examples: Readonly<Partial<Record<ErrorCode, [detail: string, details?: ErrorDetails]>>> = {
  'malformed-request': ['The request has no Host header.'],
  'repeated-header': ['The header content-type must not be repeated.'],
  'unsupported-media-type': ['Content-Type is missing: send application/json.'],
  'unsupported-coding': ['Content-Encoding must be gzip or absent.'],
  'malformed-body': ['The body is not JSON.'],
  'invalid-envelope': ['The body must have an array "events": { "events": [ … ] }.'],
  'invalid-argument': ['limit must be a whole number from 1 to 1000.', { limit: 1000 }],
  'invalid-cursor': ['The cursor belongs to another store or project.'],
  'invalid-publication': [
    'The publication is invalid at "/buildId": Every map needs a buildId.',
    { issues: [{ code: 'required', path: '/buildId', message: 'Every map needs a buildId.' }] },
  ],
  'digest-mismatch': ['Expected the digest of the bytes.'],
  unauthorized: [
    'X-Project-Id, and X-Ingestion-Key or Authorization: Bearer, must be those of an active key with the scope of the request.',
  ],
  'not-found': ['There is nothing at this path.'],
  'map-not-found': ['No map was published for this place and build.'],
  'chunk-not-found': ['The project has no chunk with this digest.'],
  'consumer-not-found': ['There is no consumer warehouse.'],
  'method-not-allowed': ['This path takes POST.'],
  'request-timeout': ['The request took too long to arrive.'],
  'map-frozen': ['The build is frozen with another map: publish under a new buildId.'],
  'consumer-conflict': [
    'Consumer warehouse has another cursor than the one to replace: another reader moved it.',
    { cursor: 'ATqRwF7ST3sWKpdRbAAAAAAAAQFnurqr' },
  ],
  'chunk-undeclared': ['No manifest of the project names this chunk: publish the manifest first.'],
  'precondition-failed': ['The map does not have the digest of If-Match.'],
  'body-too-large': [
    'A publication holds at most 1048576 bytes, uncompressed: publish a larger map as a manifest and upload its chunks.',
    bytesMax,
  ],
  'chunk-too-large': ['A chunk holds at most 1048576 bytes: cut the map into smaller ones.', bytesMax],
  'batch-too-large': [
    'A batch holds at most 262144 bytes, uncompressed: send it in parts.',
    { limit: 262_144, actual: 300_000 },
  ],
  'too-many-events': ['A batch holds at most 100 events, this one 101: send it in parts.', { limit: 100, actual: 101 }],
  'map-quota-exceeded': [
    'Unfinished uploads of the project hold too many bytes: complete or replace them.',
    { limit: 2_147_483_648, actual: 2_148_000_000 },
  ],
  'consumer-quota-exceeded': ['A project has at most 100 consumers: delete one.', { limit: 100, actual: 101 }],
  'range-not-satisfiable': ['The range is outside the 31 bytes of the map.', { limit: 31 }],
  'rate-limited': ['The project is over its limit of requests: try again in 1 s.', soon],
  'headers-too-large': ['Send at most 100 headers, of 16,384 bytes in total.', { limit: 100, actual: 101 }],
  'body-consumed': [bodyConsumed().message],
  'internal-error': ['The server failed unexpectedly: try again later.'],
  'store-damaged': [''],
  'disk-full': [''],
  draining: ['This server is shutting down: try again later.', soon],
  'key-store-unavailable': ['Keys cannot be checked now: try again later.'],
  'map-replaced': ['The map was replaced: read it again.'],
  overloaded: ['Too many batches in flight: try again later.', soon],
  'store-closed': [''],
  'store-failed': [''],
  'store-locked': ['Another process holds the write lock.', { retryAfterSeconds: 5 }],
  'store-unavailable': [''],
}

/** The codes that routes return, in the order of the error table. */
export const codesOfRoutes = Object.keys(examples) as ErrorCode[]

/** The meaning of a code and the remedy, in Markdown. */
export function meaningOf(code: ErrorCode): string {
  const { isOutcomeUnknown } = new IngestError(code, '')
  return `${errorTable[code].meaning}${isOutcomeUnknown ? '; outcome unknown' : ''}`
}

/** The problem document of a code, as the server writes it. */
export function problemExample(code: ErrorCode): Record<string, unknown> {
  const [detail, details] = examples[code] ?? ['']
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
    retryable: {
      type: 'boolean',
      description: 'whether the same request may succeed later; senders decide by the status',
    },
    issues: { type: 'array', items: Issue, description: 'what is wrong, where it applies' },
    limit: { type: 'number', description: 'the limit that was exceeded, where it applies' },
    actual: { type: 'number', description: 'the value that exceeded `limit`, where it applies' },
    cursor: {
      type: ['string', 'null'],
      description: 'the current cursor of the consumer of a `consumer-conflict`; null without a consumer',
    },
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
