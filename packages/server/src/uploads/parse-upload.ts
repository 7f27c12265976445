import { type ChunkUpload, IngestError, type Issue } from '@ingest/core'
import { type ParsedPublication, parseJson, parsePublication, stripByteOrderMark } from '@ingest/core/internal'
import { chunksMax } from '@ingest/core/wire'

/** The chunks of a JSON body. Invalid ones are rejected individually and do not fail the others. */
export interface ParsedChunks {
  uploads: { index: number; chunk: ChunkUpload }[]
  rejected: { index: number; digest: string | null; issues: Issue[] }[]
}

/** The parsed content of each kind of JSON body. */
export interface ParsedUploads {
  publication: ParsedPublication
  chunks: ParsedChunks
}

/** Parses a body of up to 4 MiB, which may take some hundred milliseconds. */
export const parsers: { readonly [Kind in keyof ParsedUploads]: (body: Uint8Array) => ParsedUploads[Kind] } = {
  /** @throws {IngestError} `malformed-body`, `invalid-publication` */
  publication: (body) => parsePublication(parseJson(stripByteOrderMark(body))),
  /** @throws {IngestError} `malformed-body`, `invalid-envelope` */
  chunks: (body) => parseChunks(parseJson(stripByteOrderMark(body))),
}

function parseChunks(envelope: unknown): ParsedChunks {
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
  const parsed: ParsedChunks = { uploads: [], rejected: [] }
  for (const [index, value] of chunks.entries()) {
    const { chunk, digest, issues } = parseChunk(value)
    if (chunk) parsed.uploads.push({ index, chunk })
    else parsed.rejected.push({ index, digest, issues })
  }
  return parsed
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

/** Node's decoder skips invalid characters and missing padding; this accepts only canonical base64. */
function decodeBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
