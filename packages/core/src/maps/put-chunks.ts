import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Issue } from '../error.ts'
import type { NewChunk, Store } from '../store.ts'
import { isObject } from '../validation.ts'
import { digestIssue, digestOf } from './digest.ts'
import type { ChunkUpload } from './map.ts'
import { chunkBytesMax } from './publication.ts'

/** What became of one chunk. */
export type ChunkOutcome = 'stored' | 'existing' | Issue

/** So many are handed to the store at once: they share a commit, and do not fill its queue. */
const chunksAtOnce = 16
/** Hashing what is larger is felt by others: they get a turn after it. */
const quickBytesMax = 65_536

export interface PutChunksContext {
  now: () => number
  pendingBytesMax: number
}

/** Checks chunks, computing the digest of each, and stores those that are right; one outcome for each. */
export async function putChunks(
  store: Store,
  projectId: string,
  chunks: readonly ChunkUpload[],
  { now, pendingBytesMax }: PutChunksContext,
): Promise<ChunkOutcome[]> {
  const outcomes: ChunkOutcome[] = []
  for (let at = 0; at < chunks.length; at += chunksAtOnce) {
    const puts: Promise<ChunkOutcome>[] = []
    for (const chunk of chunks.slice(at, at + chunksAtOnce)) {
      const issue = chunkIssue(chunk)
      const { digest, bytes } = chunk ?? {}
      const put = issue
        ? Promise.resolve(issue)
        : putOne(store, projectId, { digest, bytes, receivedAt: now(), pendingBytesMax })
      // one that fails while others are hashed is looked at below, and must not end the process before that
      put.catch(() => {})
      puts.push(put)
      if (chunk?.bytes?.length > quickBytesMax) await nextTurn()
    }
    for (const each of await Promise.allSettled(puts)) {
      if (each.status === 'rejected') throw each.reason
      outcomes.push(each.value)
    }
  }
  return outcomes
}

function chunkIssue(chunk: ChunkUpload): Issue | undefined {
  if (!isObject(chunk)) return { code: 'not_object', path: '', message: 'Expected an object.' }
  const { digest, bytes } = chunk as ChunkUpload
  return digestIssue(digest, '/digest') ?? sizeIssue(bytes) ?? mismatch(digest, bytes)
}

async function putOne(store: Store, projectId: string, chunk: NewChunk): Promise<ChunkOutcome> {
  const outcome = await store.putChunk(projectId, chunk)
  if (outcome !== 'undeclared') return outcome
  const message = 'No manifest of the project names this chunk: publish the manifest first.'
  return { code: 'undeclared', path: '/digest', message }
}

function sizeIssue(bytes: unknown): Issue | undefined {
  if (!(bytes instanceof Uint8Array)) return { code: 'invalid_type', path: '', message: 'Expected bytes.' }
  if (bytes.length === 0) return { code: 'too_short', path: '', message: 'Expected at least 1 byte.' }
  if (bytes.length <= chunkBytesMax) return undefined
  return { code: 'too_long', path: '', message: `Expected at most ${chunkBytesMax} bytes.` }
}

function mismatch(digest: string, bytes: Uint8Array): Issue | undefined {
  if (digestOf(bytes) === digest) return undefined
  return { code: 'digest_mismatch', path: '/digest', message: 'Expected the digest of the bytes.' }
}
