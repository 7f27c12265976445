import { type ChunkUpload, chunkBytesMax, IngestError, type Issue } from '@ingest/core'
import { parseJson, stripByteOrderMark } from '@ingest/core/internal'
import { type BodyKind, checkBodyHeaders } from '../http/body-headers.ts'
import { parseQuery } from '../http/query.ts'
import type { BodyLimit } from '../http/request.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { RouteContext } from '../route.ts'
import { type Body, chunksMax, type PutChunkResult, type PutChunksResult } from './bodies.ts'
import { storeUpload } from './store-upload.ts'

/** The largest body of chunks in JSON. */
export const chunksBytesMax = 4_194_304

/** The bytes of one chunk, or several chunks in JSON. */
interface ChunksKind extends BodyKind {
  put(context: RouteContext, gzip: boolean): Promise<HttpResponse>
}

const chunkLimit = limitOf(
  chunkBytesMax,
  'chunk-too-large',
  `A chunk holds at most ${chunkBytesMax} bytes: cut the map into smaller ones.`,
)
const chunksLimit = limitOf(
  chunksBytesMax,
  'body-too-large',
  `A body with chunks holds at most ${chunksBytesMax} bytes, uncompressed: upload fewer chunks at once.`,
)
const kinds = new Map<string, ChunksKind>([
  ['application/json', { limit: chunksLimit, put: putSeveral }],
  ['application/octet-stream', { limit: chunkLimit, put: putOne }],
])

/**
 * `PUT /v1/maps/chunks`: stores chunks of incomplete maps, and completes the maps that miss no more.
 *
 * @throws {IngestError}
 */
export async function putChunks(context: RouteContext): Promise<HttpResponse> {
  const { kind, gzip } = checkBodyHeaders(context.request.headers, kinds)
  return kind.put(context, gzip)
}

async function putOne(context: RouteContext, gzip: boolean): Promise<HttpResponse> {
  const { digest } = parseQuery(context.request.query, ['digest'])
  if (digest === undefined)
    throw new IngestError('invalid-argument', 'The query must name the chunk: ?digest=sha256:….')
  const result = await storeUpload(context, { gzip, limit: chunkLimit }, (body, options) =>
    context.ingest.putChunk(digest, body, options),
  )
  return jsonResponse<Body<typeof PutChunkResult>>(result.outcome === 'stored' ? 201 : 200, result)
}

async function putSeveral(context: RouteContext, gzip: boolean): Promise<HttpResponse> {
  parseQuery(context.request.query, [])
  const result = await storeUpload(context, { gzip, limit: chunksLimit }, async (body, options) => {
    const { uploads, rejected } = parseChunks(parseJson(stripByteOrderMark(body)))
    const chunks = uploads.map(({ chunk }) => chunk)
    const stored = await context.ingest.putChunks(chunks, options)
    const refused = stored.rejected.map((each) => ({ ...each, index: uploads[each.index]?.index ?? each.index }))
    return { ...stored, rejected: [...rejected, ...refused].sort((a, b) => a.index - b.index) }
  })
  return jsonResponse<Body<typeof PutChunksResult>>(200, result)
}

function limitOf(bytesMax: number, code: 'body-too-large' | 'chunk-too-large', message: string): BodyLimit {
  return { bytesMax, tooLarge: (actual) => new IngestError(code, message, { limit: bytesMax, actual }) }
}

/** Invalid chunks are rejected one by one and do not fail the others. */
function parseChunks(envelope: unknown) {
  const chunks = isObject(envelope) ? envelope.chunks : undefined
  if (!Array.isArray(chunks) || chunks.length === 0) {
    throw new IngestError('invalid-envelope', 'The body must have an array "chunks": { "chunks": [ … ] }.')
  }
  if (chunks.length > chunksMax) {
    throw new IngestError(
      'invalid-envelope',
      `A body holds at most ${chunksMax} chunks, this one has ${chunks.length}: upload fewer at once.`,
      { limit: chunksMax, actual: chunks.length },
    )
  }
  const uploads: { index: number; chunk: ChunkUpload }[] = []
  const rejected: Body<typeof PutChunksResult>['rejected'] = []
  for (const [index, value] of chunks.entries()) {
    const { chunk, digest, issues } = parseChunk(value)
    if (chunk) uploads.push({ index, chunk })
    else rejected.push({ index, digest, issues })
  }
  return { uploads, rejected }
}

function parseChunk(value: unknown): { chunk?: ChunkUpload; digest: string | null; issues: Issue[] } {
  if (!isObject(value)) {
    return { digest: null, issues: [{ code: 'not_object', path: '', message: 'Expected an object.' }] }
  }
  const digest = typeof value.digest === 'string' ? value.digest : null
  const bytes = typeof value.data === 'string' ? decodeBase64(value.data) : undefined
  if (digest !== null && bytes) return { chunk: { digest, bytes }, digest, issues: [] }
  const issues: Issue[] = []
  if (digest === null) issues.push(stringIssue('/digest', value.digest))
  if (typeof value.data !== 'string') issues.push(stringIssue('/data', value.data))
  else if (!bytes)
    issues.push({ code: 'invalid_format', path: '/data', message: 'Expected base64 (RFC 4648 section 4).' })
  return { digest, issues }
}

function stringIssue(path: string, value: unknown): Issue {
  return value === undefined
    ? { code: 'required', path, message: 'Expected a string.' }
    : { code: 'invalid_type', path, message: 'Expected a string.' }
}

/** Node's decoder skips invalid characters and missing padding: only canonical base64 is accepted. */
function decodeBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
