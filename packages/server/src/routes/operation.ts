import type { ErrorCode } from '@ingest/core'
import { Digest } from '@ingest/core/wire'

/** JSON Schema 2020-12. */
export type Schema = object

export interface Parameter {
  name: string
  in: 'query' | 'header' | 'path'
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
  /** By media type; absent if the response has no body. */
  content?: Readonly<Record<string, Content>>
  /** Names of headers in addition to those of every response. */
  headers?: readonly Header[]
}

export interface HeaderDescription {
  description: string
  schema: Schema
  isOptional?: true
}

export const text = { type: 'string' } as const

/** The headers of responses. */
export const headers = {
  'Accept-Ranges': { description: 'The unit of `Range`.', schema: { const: 'bytes' } },
  Allow: { description: 'The methods of the path.', schema: text },
  'Cache-Control': { description: '`no-store` unless stated otherwise.', schema: text },
  'Content-Length': {
    description: 'Missing where the length is not known when the response starts.',
    schema: { type: 'integer' },
    isOptional: true,
  },
  'Content-Range': {
    description: 'The range and the size of the map.',
    schema: { type: 'string', pattern: '^bytes (\\d+-\\d+|\\*)/\\d+$' },
  },
  ETag: { description: 'The digest of the bytes, as a strong entity tag.', schema: text },
  RateLimit: {
    description: 'What remains of each limit, if the server has rate limits ([draft 11](http-api.md#rate-limits)).',
    schema: text,
    isOptional: true,
  },
  'RateLimit-Policy': {
    description: 'The limits, in the same order.',
    schema: text,
    isOptional: true,
  },
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 1 } },
  Vary: { description: 'What the response depends on.', schema: text },
  'WWW-Authenticate': { description: 'The challenge (RFC 9110 section 11.6.1).', schema: text },
  'X-Content-Type-Options': { description: 'Keeps browsers from guessing.', schema: { const: 'nosniff' } },
  'X-Request-Id': { description: 'The id of this request, also in the log and in problem documents.', schema: text },
} as const satisfies Record<string, HeaderDescription>

export type Header = keyof typeof headers

/** The description of a route in the OpenAPI document. */
export interface Operation {
  operationId: string
  tag: 'events' | 'consumers' | 'maps' | 'project' | 'server'
  summary: string
  /** CommonMark; links are relative to docs/. */
  description: string
  parameters?: readonly Parameter[]
  /** By media type. */
  body?: Readonly<Record<string, Content>>
  /** By status. */
  responses: Readonly<Record<number, Success>>
  /** Codes in addition to those implied by its scope, budget and body. */
  codes?: readonly ErrorCode[]
}

export function comma(value: number): string {
  return value.toLocaleString('en-US')
}

export const time = {
  anyOf: [
    { type: 'string', format: 'date-time' },
    { type: 'integer', minimum: 0 },
  ],
}
export const json = (schema: Schema, example?: unknown) => ({
  'application/json': { schema, ...(example !== undefined && { example }) },
})
export const query = (name: string, schema: Schema, description: string, more: Partial<Parameter> = {}): Parameter => ({
  name,
  in: 'query',
  schema,
  description,
  ...more,
})
export const header = (name: string, schema: Schema, description: string): Parameter => ({
  name,
  in: 'header',
  schema,
  description,
})
export const pageOf = (max: number) => [
  query('limit', { type: 'integer', minimum: 1, maximum: max, default: 100 }, `per page, 1 to ${comma(max)}`),
  query('cursor', text, '`next` of the previous page'),
]
export const mapId = (required: boolean) => [
  query('placeId', text, 'the place', { required }),
  query('buildId', text, 'the build', { required }),
]
export const digest = query('digest', Digest, 'the chunk', { required: true })
export const ifNoneMatch = header('If-None-Match', text, 'entity tags: 304 if one is current')
export const bytes = { headers: ['ETag', 'Vary', 'X-Content-Type-Options'] } as const satisfies Partial<Success>

// examples shared by several routes
export const sampleDigest = 'sha256:a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447'
export const samplePublished = {
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
export const sampleStatus = { ...sampleMap, frozenAt: '2026-11-21T13:01:12.400Z', pending: null }
