import { type ErrorCode, EventSchema, ManifestSchema, PublicationSchema } from '@ingest/core'
import {
  Activity,
  Batch,
  BatchResult,
  BuildPage,
  ChunksUpload,
  Consumer,
  ConsumerList,
  ConsumerPosition,
  Digest,
  EventLine,
  Health,
  Issue,
  MapPage,
  MapStatus,
  PublishedMap,
  PutChunkResult,
  PutChunksResult,
  PutConsumer,
  PutConsumerResult,
  RejectedEvent,
  Rejections,
  Stats,
} from '@ingest/core/wire'
import { type Header, type HeaderDescription, headers } from '../routes/operation.ts'
import { codesOfRoutes, meaningOf, Problem, problemExample } from './problems.ts'

export type Json = Record<string, unknown>

/** The target of links into docs/. */
const docsUrl = 'https://github.com/ingest/ingest/blob/main/docs/'

/** Markdown with its links into docs/ as URLs. */
export function absoluteLinks(markdown: string): string {
  return markdown.replace(/\]\((?=[\w-]+\.md)/g, `](${docsUrl}`)
}

const schemas: Readonly<Record<string, object>> = {
  Activity,
  Batch,
  BatchResult,
  BuildPage,
  ChunksUpload,
  Consumer,
  ConsumerList,
  ConsumerPosition,
  Digest,
  Event: EventSchema,
  EventLine,
  Health,
  Issue,
  Manifest: ManifestSchema,
  MapPage,
  MapStatus,
  Problem,
  Publication: PublicationSchema,
  PublishedMap,
  PutChunkResult,
  PutChunksResult,
  PutConsumer,
  PutConsumerResult,
  RejectedEvent,
  Rejections,
  Stats,
}
const nameBySchema = new Map(Object.entries(schemas).map(([name, schema]) => [schema, name]))

/** A schema whose named parts are replaced by references. */
export function withReferences(value: unknown, isRoot = false): unknown {
  if (Array.isArray(value)) return value.map((each) => withReferences(each))
  if (typeof value !== 'object' || value === null) return value
  const name = nameBySchema.get(value)
  if (name !== undefined && !isRoot) return { $ref: `#/components/schemas/${name}` }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withReferences(each)]))
}

/** References to headers by name. */
export function headerReferences(names: readonly Header[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** The response for errors of one status. */
export function problemContent(status: number, codes: readonly ErrorCode[]): Json {
  const schema = {
    allOf: [
      { $ref: '#/components/schemas/Problem' },
      {
        type: 'object',
        required: ['status', 'code'],
        properties: { status: { const: status }, code: { enum: codes } },
      },
    ],
  }
  const examples = Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }]))
  return { 'application/problem+json': { schema, examples } }
}

/** The components that operations reference, except responses. */
export function components(): Json {
  return {
    schemas: Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, withReferences(schema, true)])),
    headers: Object.fromEntries(
      Object.entries<HeaderDescription>(headers).map(([name, { description, schema, isOptional }]) => [
        name,
        { description: absoluteLinks(description), schema, ...(!isOptional && { required: true }) },
      ]),
    ),
    examples: Object.fromEntries(codesOfRoutes.map((code) => [code, exampleOf(code)])),
    securitySchemes,
  }
}

function exampleOf(code: ErrorCode): Json {
  const summary = absoluteLinks(meaningOf(code))
  return { summary, value: problemExample(code) }
}

const key = 'An active key with the scope of the operation, of the project in `X-Project-Id`.'
const securitySchemes = {
  ingestionKey: { type: 'apiKey', in: 'header', name: 'X-Ingestion-Key', description: key },
  bearer: { type: 'http', scheme: 'bearer', description: key },
}
