import { chunkBytesMax, IngestError } from '@ingest/core'
import { type BodyKind, checkBodyHeaders } from '../http/body-headers.ts'
import { parseQuery } from '../http/query.ts'
import type { BodyLimit } from '../http/request.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { RouteContext } from '../route.ts'
import { parseUpload } from '../uploads/upload-parser.ts'
import type { Body, PutChunkResult, PutChunksResult } from './bodies.ts'
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
  const result = await storeUpload(context, { gzip, limit: chunkLimit, isJson: false }, (body, options) =>
    context.ingest.putChunk(digest, body, options),
  )
  return jsonResponse<Body<typeof PutChunkResult>>(result.outcome === 'stored' ? 201 : 200, result)
}

async function putSeveral(context: RouteContext, gzip: boolean): Promise<HttpResponse> {
  parseQuery(context.request.query, [])
  const result = await storeUpload(context, { gzip, limit: chunksLimit, isJson: true }, async (body, options) => {
    const { uploads, rejected } = await parseUpload(context.ingest.projectId, 'chunks', body)
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
