import {
  type ChunkUpload,
  chunkBytesMax,
  IngestError,
  type Issue,
  type PutChunkResult,
  type PutChunksResult,
} from '@ingest/core'
import { parseJson, stripByteOrderMark } from '@ingest/core/internal'
import { parseQuery } from '../http/query.ts'
import type { BodyLimit, EdgeRequest } from '../http/request.ts'
import { receiveUpload, type UploadContext, type UploadKind } from './upload.ts'

/** The largest body with chunks in JSON. */
export const chunksBytesMax = 4_194_304
/** The most chunks of one body in JSON. */
export const chunksMax = 64

/** What takes chunks: several in JSON, or the bytes of one. */
export function createChunkReceiver(context: UploadContext) {
  const kinds = new Map<string, UploadKind<PutChunksResult | PutChunkResult>>([
    ['application/json', chunksKind(context)],
    ['application/octet-stream', chunkKind(context)],
  ])
  return (request: EdgeRequest, headers: Record<string, string>) => receiveUpload(context, kinds, request, headers)
}

function chunkKind({ ingest }: UploadContext): UploadKind<PutChunkResult> {
  return {
    limit: limitOf(
      chunkBytesMax,
      'chunk-too-large',
      `A chunk holds at most ${chunkBytesMax} bytes: cut the map into smaller ones.`,
    ),
    prepare(request) {
      const { digest } = parseQuery(request.query, ['digest'])
      if (digest === undefined)
        throw new IngestError('invalid-argument', 'The query must name the chunk: ?digest=sha256:….')
      return (projectId, body, options) => ingest.project(projectId).putChunk(digest, body, options)
    },
  }
}

function chunksKind({ ingest }: UploadContext): UploadKind<PutChunksResult> {
  return {
    limit: limitOf(
      chunksBytesMax,
      'body-too-large',
      `A body with chunks holds at most ${chunksBytesMax} bytes, uncompressed: upload fewer chunks at once.`,
    ),
    prepare(request) {
      parseQuery(request.query, [])
      return async (projectId, body, options) => {
        const { uploads, rejected } = parseChunks(parseJson(stripByteOrderMark(body)))
        const result = await ingest.project(projectId).putChunks(
          uploads.map(({ chunk }) => chunk),
          options,
        )
        const refused = result.rejected.map((each) => ({ ...each, index: uploads[each.index]?.index ?? each.index }))
        return { ...result, rejected: [...rejected, ...refused].sort((a, b) => a.index - b.index) }
      }
    },
  }
}

function limitOf(bytesMax: number, code: 'body-too-large' | 'chunk-too-large', message: string): BodyLimit {
  return { bytesMax, tooLarge: (actual) => new IngestError(code, message, { limit: bytesMax, actual }) }
}

/** Decodes what can be; a chunk that is none does not spoil the others. */
function parseChunks(envelope: unknown) {
  const chunks = isObject(envelope) ? envelope.chunks : undefined
  if (!Array.isArray(chunks) || chunks.length === 0) {
    throw new IngestError('invalid-envelope', 'The body must be a JSON object with chunks: { "chunks": [ … ] }.')
  }
  if (chunks.length > chunksMax) {
    throw new IngestError(
      'invalid-envelope',
      `A body holds at most ${chunksMax} chunks, this one ${chunks.length}: upload fewer at once.`,
      { limit: chunksMax, actual: chunks.length },
    )
  }
  const uploads: { index: number; chunk: ChunkUpload }[] = []
  const rejected: PutChunksResult['rejected'] = []
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

/** Node's decoder skips what is not base64 and does without padding: only what it would encode again is taken. */
function decodeBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
