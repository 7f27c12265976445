import { batchBytesMax, batchEventsMax, chunkBytesMax, type ErrorCode, PublicationSchema } from '@ingest/core'
import { waitSecondsMax } from '../http/query.ts'
import {
  Activity,
  Batch,
  BatchResult,
  BuildPage,
  ChunksUpload,
  Digest,
  EventLine,
  Health,
  MapPage,
  MapStatus,
  PublishedMap,
  PutChunkResult,
  PutChunksResult,
  RecentRejections,
  Stats,
} from '../routes/bodies.ts'
import { eventsReadDefault, eventsReadMax, eventsScannedMax } from '../routes/get-events.ts'
import { mapsPageMax } from '../routes/get-maps.ts'
import { rejectedMax } from '../routes/get-recent.ts'
import { buildsPageMax } from '../routes/get-stats.ts'
import { chunksBytesMax } from '../routes/put-chunks.ts'
import { publicationBytesMax } from '../routes/put-map.ts'
import { chunksMax } from '../uploads/parse-upload.ts'

/** JSON Schema 2020-12. */
export type Schema = object

export interface Parameter {
  name: string
  in: 'query' | 'header'
  description: string
  schema: Schema
  required?: boolean
}

export interface Content {
  schema?: Schema
  example?: unknown
}

export interface Success {
  description: string
  /** By media type; none for a response without a body. */
  content?: Readonly<Record<string, Content>>
  /** Names of headers besides those of every response. */
  headers?: readonly Header[]
}

/** A header of responses. */
export type Header =
  | 'Accept-Ranges'
  | 'Allow'
  | 'Cache-Control'
  | 'Content-Length'
  | 'Content-Range'
  | 'ETag'
  | 'RateLimit'
  | 'RateLimit-Policy'
  | 'Retry-After'
  | 'Vary'
  | 'WWW-Authenticate'
  | 'X-Content-Type-Options'
  | 'X-Request-Id'

export interface Operation {
  operationId: string
  tag: 'events' | 'maps' | 'project' | 'server'
  summary: string
  /** CommonMark; links are relative to docs/. */
  description: string
  parameters?: readonly Parameter[]
  /** By media type. */
  body?: Readonly<Record<string, Content>>
  /** By status. */
  responses: Readonly<Record<number, Success>>
  /** Codes besides those that its row in the table of routes implies. */
  codes?: readonly ErrorCode[]
}

export function comma(value: number): string {
  return value.toLocaleString('en-US')
}

const text = { type: 'string' } as const
const time = {
  anyOf: [
    { type: 'string', format: 'date-time' },
    { type: 'integer', minimum: 0 },
  ],
}
const json = (schema: Schema, example?: unknown) => ({
  'application/json': { schema, ...(example !== undefined && { example }) },
})
const query = (name: string, schema: Schema, description: string, more: Partial<Parameter> = {}): Parameter => ({
  name,
  in: 'query',
  schema,
  description,
  ...more,
})
const header = (name: string, schema: Schema, description: string): Parameter => ({
  name,
  in: 'header',
  schema,
  description,
})
const pageOf = (max: number) => [
  query('limit', { type: 'integer', minimum: 1, maximum: max, default: 100 }, `per page, 1 to ${comma(max)}`),
  query('cursor', text, '`next` of the previous page'),
]
const mapId = (required: boolean) => [
  query('placeId', text, 'the place', { required }),
  query('buildId', text, 'the build', { required }),
]
const digest = query('digest', Digest, 'the chunk', { required: true })
const ifNoneMatch = header('If-None-Match', text, 'entity tags: 304 if one is current')
const bytes = { headers: ['ETag', 'Vary', 'X-Content-Type-Options'] } as const satisfies Partial<Success>

const sampleDigest = 'sha256:a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447'
const samplePublished = {
  placeId: '920587237',
  buildId: '2026.11.20',
  outcome: 'created',
  state: 'complete',
  digest: 'sha256:817eb228afb1bb6c3928dc9569fdc87b75d65bf12b2962a21305d915c19ff24f',
  size: 31,
  contentType: 'application/json',
  chunks: 1,
  frozen: true,
  missing: [],
  publishedAt: '2026-11-21T13:02:53.011Z',
}
const { outcome: _, ...sampleMap } = samplePublished
const sampleStatus = { ...sampleMap, frozenAt: '2026-11-21T13:01:12.400Z', pending: null }

/** What the table of routes does not say of each of them. A row of that table that is not described does not compile. */
export const operations = {
  'POST /v1/events/batch': {
    operationId: 'sendBatch',
    tag: 'events',
    summary: 'store a batch of events',
    description: `At most ${batchEventsMax} events and ${comma(batchBytesMax)} bytes, also after decompression. Other members and a byte order mark are ignored; the query is ignored. Idempotent: retry the same bytes until a 202.`,
    body: json(Batch, {
      events: [{ projectId: 'demo', eventId: 'e-1', type: 'round.start', buildId: '2026.11.20' }],
    }),
    responses: {
      202: {
        description: 'Every accepted event is durable. Invalid events do not fail the batch, even if all are rejected.',
        content: json(BatchResult, {
          accepted: 0,
          duplicates: 1,
          rejected: [
            {
              index: 1,
              eventId: 'e-3',
              issues: [{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }],
            },
          ],
        }),
      },
    },
    codes: ['malformed-body', 'invalid-envelope', 'batch-too-large', 'too-many-events'],
  },
  'GET /v1/events': {
    operationId: 'readEvents',
    tag: 'events',
    summary: 'read, filter and follow events',
    description: `Oldest first. A response scans at most ${comma(eventsScannedMax)} events, and ends early when the read limit is exhausted: repeat with the cursor of the last line. A failure breaks the connection: ignore a last line without a line feed. See [GET /v1/events](http-api.md#get-v1events).`,
    parameters: [
      query(
        'limit',
        { type: 'integer', minimum: 1, maximum: eventsReadMax, default: eventsReadDefault },
        `events per response, 1 to ${comma(eventsReadMax)}`,
      ),
      query(
        'after',
        { type: 'string', maxLength: 40 },
        'a [cursor](http-api.md#cursors) to continue behind, else from the beginning; `end` skips everything stored so far',
      ),
      query('type', text, 'exact match'),
      query('buildId', text, 'exact match'),
      query('from', time, '`receivedAt` at or after: RFC 3339 with a zone, or milliseconds. Uses an index'),
      query('to', time, '`receivedAt` before, in the same forms'),
      query(
        'wait',
        { type: 'integer', minimum: 0, maximum: waitSecondsMax, default: 0 },
        `long poll: seconds to hold the response while no event matches, 0 to ${waitSecondsMax}`,
      ),
      query('eventId', text, 'the event with this id, or no line; excludes all other parameters'),
    ],
    responses: {
      200: {
        description: 'A line for each event. With a filter, `wait` or `after=end`, the last may hold only a `cursor`.',
        content: {
          'application/x-ndjson': {
            schema: {
              ...text,
              description: 'NDJSON: each line, which ends with a line feed, is an EventLine.',
              contentMediaType: 'application/x-ndjson',
              contentSchema: EventLine,
            },
            example: `${JSON.stringify({
              cursor: 'ATqRwF7ST3sWKpdRbAAAAAAAAQFnurqr',
              receivedAt: 1795266173061,
              event: { projectId: 'demo', eventId: 'e-2' },
            })}\n`,
          },
        },
      },
    },
    codes: ['invalid-cursor'],
  },
  'GET /v1/maps': {
    operationId: 'getMaps',
    tag: 'maps',
    summary: 'status of maps',
    description:
      'With `placeId` and `buildId` the status of that map; with one or neither the maps of the project, by build, then place, in byte order.',
    parameters: [...mapId(false), ...pageOf(mapsPageMax)],
    responses: {
      200: {
        description: 'One map, or a page of them.',
        content: json({ anyOf: [MapStatus, MapPage] }, sampleStatus),
      },
    },
    codes: ['map-not-found', 'invalid-cursor'],
  },
  'PUT /v1/maps': {
    operationId: 'publishMap',
    tag: 'maps',
    summary: 'publish a map',
    description: `Idempotent: repeat it at any time to see the state. At most ${comma(publicationBytesMax)} bytes, also after decompression. See [Maps](maps.md).`,
    parameters: [
      query('dryRun', { enum: ['true', 'false'], default: 'false' }, 'return the response without writing'),
      header('If-None-Match', { const: '*' }, 'publish only if no map is complete'),
      header('If-Match', { type: 'string', pattern: '^"sha256:[0-9a-f]{64}"$' }, 'publish only over this map'),
    ],
    body: {
      'application/json': {
        schema: PublicationSchema,
        example: { placeId: '920587237', buildId: '2026.11.20', map: { parts: [{ z: 1, a: [1, 2.5] }] } },
      },
    },
    responses: {
      200: {
        description: '`replaced` another complete map, or `unchanged`: it is already complete, frozen or not.',
        content: json(PublishedMap, { ...samplePublished, outcome: 'unchanged' }),
      },
      201: {
        description: '`created`: the first complete map of this place and build.',
        content: json(PublishedMap, samplePublished),
      },
      202: {
        description: '`incomplete`: the manifest is recorded; upload the chunks in `missing`.',
        content: json(PublishedMap, {
          ...samplePublished,
          outcome: 'incomplete',
          state: 'incomplete',
          missing: [sampleDigest],
          publishedAt: null,
        }),
      },
    },
    codes: [
      'invalid-publication',
      'digest-mismatch',
      'map-frozen',
      'precondition-failed',
      'body-too-large',
      'map-quota-exceeded',
    ],
  },
  'GET /v1/maps/chunks': {
    operationId: 'getChunk',
    tag: 'maps',
    summary: 'read one chunk',
    description: 'The bytes of one chunk, which never change.',
    parameters: [digest, ifNoneMatch],
    responses: {
      200: { description: 'The bytes.', content: { 'application/octet-stream': {} }, ...bytes },
      304: { description: 'The entity tag is current.', ...bytes },
    },
    codes: ['chunk-not-found'],
  },
  'PUT /v1/maps/chunks': {
    operationId: 'putChunks',
    tag: 'maps',
    summary: 'upload chunks',
    description: `Chunks of 1 to ${comma(chunkBytesMax)} bytes that a manifest of the project names: 1 to ${chunksMax} as JSON in at most ${comma(chunksBytesMax)} bytes, or one as the body. If nothing is missing and the map is not in \`completed\`, repeat the PUT of its manifest.`,
    parameters: [query('digest', Digest, 'the chunk; required with `application/octet-stream`, else not allowed')],
    body: {
      'application/json': {
        schema: ChunksUpload,
        example: { chunks: [{ digest: sampleDigest, data: 'aGVsbG8gd29ybGQK' }] },
      },
      'application/octet-stream': {},
    },
    responses: {
      200: {
        description: 'Chunks as JSON, whatever the outcome of each; or one chunk that existed.',
        content: json(
          { anyOf: [PutChunksResult, PutChunkResult] },
          { stored: 1, existing: 0, rejected: [], completed: [] },
        ),
      },
      201: {
        description: 'One chunk was stored.',
        content: json(PutChunkResult, { outcome: 'stored', completed: [] }),
      },
    },
    codes: ['invalid-envelope', 'digest-mismatch', 'chunk-undeclared', 'body-too-large', 'chunk-too-large'],
  },
  'GET /v1/maps/content': {
    operationId: 'getMapContent',
    tag: 'maps',
    summary: 'download a map',
    description:
      'The bytes of the complete map with its `Content-Type`. If an open map is replaced during the download, the connection breaks before `Content-Length`: download again.',
    parameters: [
      ...mapId(true),
      header('Range', text, 'one byte range; multiple or malformed ranges are ignored'),
      header('If-Range', text, 'the entity tag for which `Range` counts'),
      header('If-Match', text, 'entity tags: 412 if none is current'),
      ifNoneMatch,
    ],
    responses: {
      200: {
        description: 'The whole map.',
        content: { '*/*': {} },
        headers: [...bytes.headers, 'Accept-Ranges'],
      },
      206: {
        description: 'The range.',
        content: { '*/*': {} },
        headers: [...bytes.headers, 'Accept-Ranges', 'Content-Range'],
      },
      304: { description: 'The entity tag is current.', ...bytes },
    },
    codes: ['map-not-found', 'precondition-failed', 'range-not-satisfiable', 'map-replaced'],
  },
  'GET /v1/stats': {
    operationId: 'getStats',
    tag: 'project',
    summary: 'counts of the project',
    description: 'The cost depends on the number of builds, not of events.',
    responses: {
      200: {
        description: 'The totals.',
        content: json(Stats, {
          events: 30000,
          batches: 300,
          bytes: 2509600,
          firstAt: '2026-11-21T16:04:59.684Z',
          lastAt: '2026-11-21T16:05:07.127Z',
          eventsPerSecond: 500,
          builds: 3,
          frozenBuilds: 2,
          maps: 2,
        }),
      },
    },
  },
  'GET /v1/builds': {
    operationId: 'listBuilds',
    tag: 'project',
    summary: 'list builds and when each froze',
    description: 'Builds that are frozen or have a published map, in byte order.',
    parameters: pageOf(buildsPageMax),
    responses: {
      200: {
        description: 'A page of builds.',
        content: json(BuildPage, {
          builds: [{ buildId: '2026.11.19', frozenAt: '2026-11-21T16:04:59.684Z', maps: 0 }],
          next: null,
        }),
      },
    },
    codes: ['invalid-cursor'],
  },
  'GET /v1/activity': {
    operationId: 'getActivity',
    tag: 'project',
    summary: 'outcomes by minute',
    description: 'Counted in memory, by the process that responds. See [GET /v1/activity](http-api.md#get-v1activity).',
    responses: {
      200: {
        description: 'The last 60 minutes.',
        content: json(Activity, {
          since: '2026-11-21T15:00:00.000Z',
          servers: 1,
          minutes: [{ at: '2026-11-21T16:05:00.000Z', accepted: 29800, duplicates: 200, rejected: 3 }],
        }),
      },
    },
  },
  'GET /v1/rejected': {
    operationId: 'listRejected',
    tag: 'project',
    summary: 'the last rejected events',
    description: 'In memory, of the process that responds. See [GET /v1/rejected](http-api.md#get-v1rejected).',
    parameters: [
      query(
        'limit',
        { type: 'integer', minimum: 1, maximum: rejectedMax, default: 100 },
        `events in \`rejected\`, 1 to ${comma(rejectedMax)}`,
      ),
    ],
    responses: {
      200: {
        description: 'Rejected events, newest first, and all in memory by issue.',
        content: json(RecentRejections, {
          since: '2026-11-21T15:00:00.000Z',
          total: 3,
          groups: [
            {
              code: 'invalid_type',
              path: '/buildId',
              message: 'Expected a string.',
              count: 3,
              lastAt: '2026-11-21T16:05:07.127Z',
            },
          ],
          rejected: [
            {
              receivedAt: '2026-11-21T16:05:07.127Z',
              index: 1,
              eventId: 'e-3',
              issues: [{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }],
            },
          ],
        }),
      },
    },
  },
  'GET /livez': {
    operationId: 'getLivez',
    tag: 'server',
    summary: 'liveness',
    description: '200 while the process responds, also while draining. The query is ignored.',
    responses: { 200: { description: 'The process responds.', content: json(Health, { status: 'alive' }) } },
  },
  'GET /readyz': {
    operationId: 'getReadyz',
    tag: 'server',
    summary: 'readiness',
    description: '200 if a batch could be stored now; otherwise the 503 that a batch would get. The query is ignored.',
    responses: { 200: { description: 'A batch could be stored.', content: json(Health, { status: 'ready' }) } },
    codes: ['draining', 'disk-full', 'overloaded', 'store-closed', 'store-failed', 'store-locked', 'store-unavailable'],
  },
  'GET /openapi.json': {
    operationId: 'getOpenapi',
    tag: 'server',
    summary: 'this document',
    description: 'OpenAPI 3.1. The query is ignored.',
    parameters: [ifNoneMatch],
    responses: {
      200: { description: 'The document.', content: json({ type: 'object' }), headers: ['ETag'] },
      304: { description: 'The entity tag is current.', headers: ['ETag'] },
    },
  },
} as const satisfies Readonly<Record<string, Operation>>

/** A described route, as `[method, path]`. */
export type RouteName = SplitName<keyof typeof operations>
type SplitName<Name> = Name extends `${infer Method} ${infer Path}` ? [method: Method, path: Path] : never
