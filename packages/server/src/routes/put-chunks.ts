import { chunkBytesMax, IngestError } from '@ingest/core'
import { ChunksUpload, chunksMax, Digest, PutChunkResult, PutChunksResult, toWire } from '@ingest/core/wire'
import { type BodyKind, checkBodyHeaders, limitBody } from '../http/body.ts'
import { parseQuery } from '../http/query.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { parseUpload } from '../uploads/upload-parser.ts'
import { comma, json, query, sampleDigest } from './operation.ts'
import type { ProjectRoute, RouteContext } from './route.ts'
import { storeUpload } from './store-upload.ts'

/** Maximum bytes of a JSON body of chunks. */
export const chunksBytesMax = 4_194_304

/** The bytes of one chunk, or several chunks in JSON. */
interface ChunksKind extends BodyKind {
  put(context: RouteContext, gzip: boolean): Promise<HttpResponse>
}

const chunkLimit = limitBody(
  chunkBytesMax,
  'chunk-too-large',
  `A chunk holds at most ${chunkBytesMax} bytes: cut the map into smaller ones.`,
)
const chunksLimit = limitBody(
  chunksBytesMax,
  'body-too-large',
  `A body with chunks holds at most ${chunksBytesMax} bytes, uncompressed: upload fewer chunks at once.`,
)
const kinds = new Map<string, ChunksKind>([
  ['application/json', { limit: chunksLimit, put: putSeveral }],
  ['application/octet-stream', { limit: chunkLimit, put: putOne }],
])

export const putChunks: ProjectRoute = {
  method: 'PUT',
  path: '/v1/maps/chunks',
  scope: 'maps:write',
  concurrency: 'uploads',
  budget: 'maps',
  operation: {
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
  handle: storeChunks,
}

async function storeChunks(context: RouteContext): Promise<HttpResponse> {
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
  return jsonResponse(result.outcome === 'stored' ? 201 : 200, toWire(PutChunkResult, result))
}

async function putSeveral(context: RouteContext, gzip: boolean): Promise<HttpResponse> {
  parseQuery(context.request.query, [])
  const result = await storeUpload(context, { gzip, limit: chunksLimit, isJson: true }, async (body, options) => {
    const { uploads, rejected } = await parseUpload(context.ingest.projectId, 'chunks', body, options)
    const chunks = uploads.map(({ chunk }) => chunk)
    const stored = await context.ingest.putChunks(chunks, options)
    const refused = stored.rejected.map((each) => ({ ...each, index: uploads[each.index]?.index ?? each.index }))
    return { ...stored, rejected: [...rejected, ...refused].sort((a, b) => a.index - b.index) }
  })
  return jsonResponse(200, toWire(PutChunksResult, result))
}
