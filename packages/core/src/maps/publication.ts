import type { TSchema } from 'typebox'
import { IngestError, type Issue } from '../error.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import type { ChunkRef, ChunkUpload, Manifest, MapId } from '../store-types.ts'
import { integerIssue, isObject, issuesMax, nameIssue, textOrIntegerIssue } from '../validation.ts'
import { digestIssue, digestOf, digestPattern } from './digest.ts'

/** The largest chunk, in bytes. */
export const chunkBytesMax = 1_048_576
/** Maximum number of chunks of a manifest: as many as fit into 1 MiB of JSON. */
export const manifestChunksMax = 11_155
const contentTypeBytesMax = 200
const idBytesMax = 128

/** A valid publication, as a manifest. */
export interface ParsedPublication extends MapId {
  manifest: Manifest
  /** The distinct chunks of a full map. */
  uploads?: ChunkUpload[]
}

/** Publications that another thread has parsed. */
const parsedElsewhere = new WeakSet<object>()

/** Marks a publication as parsed in another thread: {@link parsePublication} returns it unchanged. */
export function trustParsed(publication: ParsedPublication): ParsedPublication {
  parsedElsewhere.add(publication)
  return publication
}

/**
 * Parses a publication and reports its issues. A full map is canonicalized and split into chunks.
 *
 * @throws {IngestError} `invalid-publication`, with `issues`
 */
export function parsePublication(input: unknown): ParsedPublication {
  if (!isObject(input)) throw invalid([{ code: 'not_object', path: '', message: 'Expected an object.' }])
  if (parsedElsewhere.has(input)) return input as unknown as ParsedPublication
  const { map, manifest } = input
  const issues = mapIdIssues(input)
  if ((map === undefined) === (manifest === undefined)) {
    const code = map === undefined ? 'required' : 'not_allowed'
    issues.push({ code, path: '', message: 'Expected either map or manifest.' })
  } else if (manifest !== undefined) {
    issues.push(...manifestIssues(manifest))
  }
  if (issues.length > 0) throw invalid(issues)
  const id = toMapId(input as unknown as MapId)
  return map === undefined ? { ...id, manifest: toManifest(manifest as Manifest) } : { ...id, ...cut(map) }
}

/**
 * Parses the id of a map; an integer `placeId` becomes its decimal string.
 *
 * @throws {IngestError} `invalid-argument`, with `issues`
 */
export function parseMapId(input: unknown): MapId {
  const issues: Issue[] = isObject(input)
    ? mapIdIssues(input)
    : [{ code: 'not_object', path: '', message: 'Expected an object.' }]
  if (issues.length > 0) {
    throw new IngestError('invalid-argument', 'The id of a map needs a placeId and a buildId.', { issues })
  }
  return toMapId(input as MapId)
}

function invalid(issues: Issue[]): IngestError {
  const [first] = issues as [Issue]
  return new IngestError('invalid-publication', `The publication is invalid at "${first.path}": ${first.message}`, {
    issues: issues.slice(0, issuesMax),
  })
}

function mapIdIssues({ placeId, buildId }: Record<string, unknown>): Issue[] {
  const issues = [placeIdIssue(placeId, '/placeId'), buildIdIssue(buildId, '/buildId')]
  return issues.filter((issue) => issue !== undefined)
}

function placeIdIssue(value: unknown, path: string): Issue | undefined {
  if (value === undefined) return { code: 'required', path, message: 'Every map needs a placeId.' }
  const issue = textOrIntegerIssue(value, path, 1, idBytesMax)
  if (issue || typeof value === 'number' || (value as string).isWellFormed()) return issue
  return { code: 'invalid_format', path, message: 'Expected no lone surrogates.' }
}

export function buildIdIssue(value: unknown, path: string): Issue | undefined {
  if (value === undefined) return { code: 'required', path, message: 'Every map needs a buildId.' }
  return nameIssue(value, path, idBytesMax)
}

function toMapId({ placeId, buildId }: MapId): MapId {
  return { placeId: String(placeId), buildId }
}

// RFC 9110 section 8.3.1, with parameters
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const mediaType = new RegExp(`^${token}/${token}(?:[ \\t]*;[ \\t]*${token}=(?:${token}|"[ !#-\\[\\]-~]*"))*$`)

const idProperties = {
  placeId: {
    anyOf: [{ type: 'string', minLength: 1, maxLength: idBytesMax }, { type: 'integer' }],
    description: 'As in events; an integer means its decimal string.',
  },
  buildId: { type: 'string', minLength: 1, maxLength: idBytesMax, description: 'As in events.' },
}
const digest = { type: 'string', pattern: digestPattern.source }

/** A manifest as JSON Schema. */
export const ManifestSchema: TSchema = {
  type: 'object',
  required: ['contentType', 'size', 'digest', 'chunks'],
  properties: {
    contentType: { type: 'string', maxLength: contentTypeBytesMax, pattern: mediaType.source },
    size: { type: 'integer', minimum: 0, description: 'The sum of the sizes of the chunks, in bytes.' },
    digest: { ...digest, description: 'Over the bytes of all chunks one after another: `sha256sum` gives it.' },
    chunks: {
      type: 'array',
      maxItems: manifestChunksMax,
      description: 'The chunks in order; one may repeat.',
      items: {
        type: 'object',
        required: ['digest', 'size'],
        properties: { digest, size: { type: 'integer', minimum: 1, maximum: chunkBytesMax } },
      },
    },
  },
}

/** A publication as JSON Schema, for documentation and code generators. The server checks the exact rules. */
export const PublicationSchema: TSchema = {
  oneOf: [
    {
      type: 'object',
      required: ['placeId', 'buildId', 'map'],
      properties: { ...idProperties, map: { description: 'Any JSON value, stored as canonical JSON (RFC 8785).' } },
    },
    {
      type: 'object',
      required: ['placeId', 'buildId', 'manifest'],
      properties: { ...idProperties, manifest: ManifestSchema },
    },
  ],
}

function contentTypeIssue(value: unknown, path: string): Issue | undefined {
  const message = 'Expected a media type such as application/json.'
  if (value === undefined) return { code: 'required', path, message }
  if (typeof value !== 'string') return { code: 'invalid_type', path, message }
  if (value.length > contentTypeBytesMax) {
    return { code: 'too_long', path, message: `Expected at most ${contentTypeBytesMax} bytes.` }
  }
  return mediaType.test(value) ? undefined : { code: 'invalid_format', path, message }
}

function manifestIssues(manifest: unknown): Issue[] {
  const path = '/manifest'
  if (!isObject(manifest)) return [{ code: 'not_object', path, message: 'Expected an object.' }]
  const { contentType, size, digest, chunks } = manifest
  const issues = [
    contentTypeIssue(contentType, `${path}/contentType`),
    sizeIssue(size, `${path}/size`, 0, Number.MAX_SAFE_INTEGER),
    digestIssue(digest, `${path}/digest`),
    ...chunksIssues(chunks, `${path}/chunks`),
  ].filter((issue) => issue !== undefined)
  if (issues.length > 0) return issues
  const sum = (chunks as ChunkRef[]).reduce((bytes, chunk) => bytes + chunk.size, 0)
  if (sum === size) return []
  return [{ code: 'out_of_range', path: `${path}/size`, message: `Expected the sum of the chunks' sizes, ${sum}.` }]
}

function chunksIssues(chunks: unknown, path: string): Issue[] {
  if (chunks === undefined) return [{ code: 'required', path, message: 'Expected the list of chunks.' }]
  if (!Array.isArray(chunks)) return [{ code: 'invalid_type', path, message: 'Expected an array.' }]
  if (chunks.length > manifestChunksMax) {
    return [{ code: 'too_long', path, message: `Expected at most ${manifestChunksMax} chunks: make them larger.` }]
  }
  const issues: Issue[] = []
  const sizes = new Map<unknown, unknown>()
  for (const [i, chunk] of chunks.entries()) {
    if (issues.length >= issuesMax) break
    issues.push(...chunkIssues(chunk, `${path}/${i}`, sizes))
  }
  return issues
}

function chunkIssues(chunk: unknown, path: string, sizes: Map<unknown, unknown>): Issue[] {
  if (!isObject(chunk)) return [{ code: 'not_object', path, message: 'Expected an object.' }]
  const { digest, size } = chunk
  const issues = [digestIssue(digest, `${path}/digest`), sizeIssue(size, `${path}/size`, 1, chunkBytesMax)]
  const before = sizes.get(digest)
  if (before !== undefined && before !== size) {
    issues.push({ code: 'out_of_range', path: `${path}/size`, message: 'Expected one size for one digest.' })
  }
  sizes.set(digest, size)
  return issues.filter((issue) => issue !== undefined)
}

function sizeIssue(value: unknown, path: string, min: number, max: number): Issue | undefined {
  if (value === undefined) return { code: 'required', path, message: 'Expected a number of bytes.' }
  return integerIssue(value, path, min, max)
}

/** Drops unknown members of a manifest. */
function toManifest({ contentType, size, digest, chunks }: Manifest): Manifest {
  return { contentType, size, digest, chunks: chunks.map((chunk) => ({ digest: chunk.digest, size: chunk.size })) }
}

function cut(map: unknown): { manifest: Manifest; uploads: ChunkUpload[] } {
  const whole = canonicalJson(map, ['map'])
  const parts: ChunkUpload[] = []
  for (let at = 0; at < whole.length; at += chunkBytesMax) {
    const bytes = whole.subarray(at, at + chunkBytesMax)
    parts.push({ digest: digestOf(bytes), bytes })
  }
  const chunks = parts.map(({ digest, bytes }) => ({ digest, size: bytes.length }))
  return {
    manifest: { contentType: 'application/json', size: whole.length, digest: digestOf(whole), chunks },
    uploads: [...new Map(parts.map((part) => [part.digest, part])).values()],
  }
}
