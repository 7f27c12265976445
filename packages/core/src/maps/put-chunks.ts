import { isUint8Array } from 'node:util/types'
import type { Issue } from '../error.ts'
import { IngestError } from '../error.ts'
import { nextReadStep } from '../read-steps.ts'
import type { MapStore } from '../store.ts'
import type { ChunkUpload, MapId, NewChunk } from '../store-types.ts'
import { isObject } from '../validation.ts'
import type { MapVerifier } from './complete-map.ts'
import { computeDigest, digestIssue, isDigest } from './digest.ts'
import type { PublishedMap, PutChunkResult, PutChunksResult, VerificationOptions } from './map.ts'
import { chunkBytesMax } from './publication.ts'

/** Chunks in flight to the store: enough to share a commit, too few to fill its queue. */
const concurrency = 16
/** Copying a larger chunk delays other work noticeably, so other tasks of the event loop run after it. */
const turnBytesMax = 65_536
/** Maximum number of maps that one upload completes: any number of manifests may need the same chunk. */
export const completionsMax = 16
/** An upload completes no further map once this many bytes were hashed. */
export const completionBytesMax = 64 * 2 ** 20

export interface PutChunksContext {
  store: MapStore
  verifier: MapVerifier
  /** Milliseconds since 1970. */
  now(): number
}

/** Stores chunks, and completes the maps whose last chunks they were. */
export async function putChunks(
  context: PutChunksContext,
  projectId: string,
  chunks: readonly ChunkUpload[],
  options: VerificationOptions,
): Promise<PutChunksResult> {
  const { outcomes, ready } = await storeChunks(context, projectId, chunks)
  const rejected = outcomes.flatMap((outcome, index) => {
    if (typeof outcome === 'string') return []
    const digest: unknown = chunks[index]?.digest
    return [{ index, digest: isDigest(digest) ? digest : null, issues: [outcome] }]
  })
  const stored = outcomes.filter((outcome) => outcome === 'stored').length
  const existing = outcomes.length - stored - rejected.length
  return { stored, existing, rejected, completed: await completeReady(context, projectId, ready, options) }
}

/**
 * Stores one chunk, and completes the maps whose last chunk it was.
 *
 * @throws {IngestError} `chunk-undeclared`, `digest-mismatch`, `chunk-too-large`, `invalid-argument`
 */
export async function putChunk(
  context: PutChunksContext,
  projectId: string,
  chunk: ChunkUpload,
  options: VerificationOptions,
): Promise<PutChunkResult> {
  const { outcomes, ready } = await storeChunks(context, projectId, [chunk])
  const [outcome] = outcomes
  if (typeof outcome !== 'string') throw chunkError(outcome as Issue, chunk.bytes.length)
  return { outcome, completed: await completeReady(context, projectId, ready, options) }
}

type ChunkOutcome = 'stored' | 'existing' | Issue

/**
 * Verifies the digest of each chunk and stores the valid ones. Returns one outcome each, and the maps whose chunks are
 * now all stored.
 */
async function storeChunks(
  { store, now }: PutChunksContext,
  projectId: string,
  chunks: readonly ChunkUpload[],
): Promise<{ outcomes: ChunkOutcome[]; ready: MapId[] }> {
  const outcomes: ChunkOutcome[] = []
  const ready = new Map<string, MapId>()

  async function putOne(chunk: NewChunk): Promise<ChunkOutcome> {
    if ((await computeDigest(chunk.bytes)) !== chunk.digest) return mismatch
    const put = await store.putChunk(projectId, chunk)
    for (const id of put.ready) ready.set(JSON.stringify([id.placeId, id.buildId]), id)
    return put.outcome === 'undeclared' ? undeclared : put.outcome
  }

  for (let at = 0; at < chunks.length; at += concurrency) {
    const puts: Promise<ChunkOutcome>[] = []
    for (const chunk of chunks.slice(at, at + concurrency)) {
      const issue = chunkIssue(chunk)
      const { digest, bytes } = chunk ?? {}
      const put = issue ? Promise.resolve(issue) : putOne({ digest, bytes, receivedAt: now() })
      // rejections are handled below; this keeps Node from reporting them as unhandled
      put.catch(() => {})
      puts.push(put)
      if (chunk?.bytes?.length > turnBytesMax) await nextReadStep(projectId)
    }
    for (const each of await Promise.allSettled(puts)) {
      if (each.status === 'rejected') throw each.reason
      outcomes.push(each.value)
    }
  }
  return { outcomes, ready: [...ready.values()] }
}

/**
 * Completes maps whose chunks are all stored. A map that cannot be verified now stays pending; the upload still
 * succeeds.
 */
async function completeReady(
  { store, verifier }: PutChunksContext,
  projectId: string,
  ready: readonly MapId[],
  { admit, signal }: VerificationOptions,
): Promise<PublishedMap[]> {
  const completed: PublishedMap[] = []
  let bytes = 0
  for (const id of ready.slice(0, completionsMax)) {
    const key = { projectId, ...id }
    const { pending } = await store.map(key)
    if (bytes >= completionBytesMax || verifier.isBusy(projectId) || signal?.aborted) break
    if (!pending || pending.missing.length > 0) continue
    const admitted = tryAdmit(pending.manifest.size, admit)
    // not awaited if it is synchronous, so that concurrent calls are charged once
    if (!(typeof admitted === 'boolean' ? admitted : await admitted)) continue
    bytes += pending.manifest.size
    const published = await verifier.complete(key, pending.manifest, signal ? { signal } : {}).catch((error) => {
      if (!signal?.aborted) throw error
    })
    if (published && published.outcome !== 'unchanged') completed.push(published)
  }
  return completed
}

function tryAdmit(bytes: number, admit: VerificationOptions['admit']): boolean | Promise<boolean> {
  try {
    const admitted = admit?.(bytes)
    if (admitted === undefined) return true
    return Promise.resolve(admitted).then(
      () => true,
      () => false,
    )
  } catch {
    return false
  }
}

const undeclared: Issue = {
  code: 'undeclared',
  path: '/digest',
  message: 'No manifest of the project names this chunk with this size: publish the manifest first.',
}

const mismatch: Issue = { code: 'digest_mismatch', path: '/digest', message: 'Expected the digest of the bytes.' }

/** The issue of a chunk, without checking its digest. */
function chunkIssue(chunk: ChunkUpload): Issue | undefined {
  if (!isObject(chunk)) return { code: 'not_object', path: '', message: 'Expected an object.' }
  const { digest, bytes } = chunk as ChunkUpload
  return digestIssue(digest, '/digest') ?? bytesIssue(bytes)
}

function bytesIssue(bytes: unknown): Issue | undefined {
  if (!isUint8Array(bytes)) return { code: 'invalid_type', path: '', message: 'Expected bytes.' }
  if (bytes.length === 0) return { code: 'too_short', path: '', message: 'Expected at least 1 byte.' }
  if (bytes.length <= chunkBytesMax) return undefined
  return { code: 'too_long', path: '', message: `Expected at most ${chunkBytesMax} bytes.` }
}

function chunkError(issue: Issue, actual: number): IngestError {
  if (issue.code === 'undeclared') return new IngestError('chunk-undeclared', issue.message)
  if (issue.code === 'digest_mismatch') return new IngestError('digest-mismatch', issue.message)
  if (issue.code === 'too_long') {
    const limits = { limit: chunkBytesMax, actual }
    return new IngestError('chunk-too-large', `A chunk holds at most ${chunkBytesMax} bytes: make it smaller.`, limits)
  }
  return new IngestError('invalid-argument', issue.message, { issues: [issue] })
}
