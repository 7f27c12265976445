import { createHash, type Hash } from 'node:crypto'
import type { MessagePort } from 'node:worker_threads'
import type { Environment, Table } from '../environment/environment.ts'
import { serializeError, toRequestError } from '../threads/error-transfer.ts'
import type { ExitGuard } from '../threads/exit-guard.ts'
import { type Handled, type Outcome, runRequestLoop, type WriteThreadData } from '../threads/request-loop.ts'
import { asBuffer } from '../writer/commands.ts'
import { createCommit } from '../writer/commit.ts'

/** Blobs to write, the keys of blobs to delete, or a part of a hash. */
export type BlobRequest =
  | { type: 'write'; id: number; rows: readonly { blobKey: Uint8Array; bytes: Uint8Array }[] }
  | { type: 'remove'; id: number; blobKeys: readonly Uint8Array[] }
  | HashRequest

/**
 * `hash` hashes blobs up to the first one that does not exist, and results in their number. Requests with the same
 * number in `hash` add to one digest, which `digest` returns; `digest` and `forget` free it.
 */
export type HashRequest =
  | { type: 'hash'; id: number; hash: number; blobKeys: readonly Uint8Array[] }
  | { type: 'digest' | 'forget'; id: number; hash: number }

type WriteRequest = Exclude<BlobRequest, HashRequest>

/** Writes and hashes the blobs of a process; many writes share one transaction and one sync. */
export function runBlobWriter(
  port: MessagePort,
  environment: Environment,
  { commitState }: WriteThreadData,
  guard: ExitGuard,
): Promise<void> {
  const blobs = environment.table('bytes')
  const { commit, refuse, ready, turn } = createCommit<WriteRequest, true>(environment, commitState, { write })

  const hasher = createBlobHasher(environment, blobs)
  /** Rows in shared memory are copied here, as LMDB's binding cannot read them there. */
  let copy = Buffer.alloc(0)

  function bytesOf({ bytes }: { bytes: Uint8Array }): Buffer {
    if (bytes.buffer instanceof ArrayBuffer) return asBuffer(bytes)
    if (copy.length < bytes.length) copy = Buffer.allocUnsafeSlow(bytes.length)
    copy.set(bytes)
    return copy.subarray(0, bytes.length)
  }

  function write(request: WriteRequest): true {
    if (request.type === 'remove') for (const blobKey of request.blobKeys) blobs.remove(asBuffer(blobKey))
    else for (const row of request.rows) blobs.put(asBuffer(row.blobKey), bytesOf(row))
    return true
  }

  return runRequestLoop<BlobRequest>(port, guard, async () => ({
    requestBytes: (request) => (request.type === 'write' ? sizeOf(request) : 0),
    isRead: isHash,
    async handle(requests, settle) {
      const hashes = requests.filter(isHash)
      if (hashes.length > 0) settle({ outcomes: hashes.map(hasher) })
      const writes = requests.filter((request) => !isHash(request)) as WriteRequest[]
      if (writes.length > 0) await writeAll(writes, settle)
    },
    async close() {},
  }))

  async function writeAll(requests: readonly WriteRequest[], settle: (handled: Handled) => void): Promise<void> {
    try {
      await ready(guard)
      await turn(guard)
    } catch (error) {
      settle({ outcomes: refuse(requests, error) })
      return
    }
    commit(requests, settle)
  }
}

function isHash(request: BlobRequest): request is HashRequest {
  return request.type !== 'write' && request.type !== 'remove'
}

function createBlobHasher({ root }: Environment, blobs: Table): (request: HashRequest) => Outcome {
  const hashes = new Map<number, Hash>()

  /** The number of blobs that exist, before the first one that does not. */
  function update(number: number, blobKeys: readonly Uint8Array[]): number {
    const hash = hashes.get(number) ?? createHash('sha256')
    hashes.set(number, hash)
    root.resetReadTxn()
    for (const [i, blobKey] of blobKeys.entries()) {
      // LMDB's binding reuses the memory of the result, and sets `length`
      const bytes = blobs.getBinaryFast(asBuffer(blobKey))
      if (!bytes) return i
      hash.update(bytes.subarray(0, bytes.length))
    }
    return blobKeys.length
  }

  return (request) => {
    const { id, hash } = request
    try {
      if (request.type === 'hash') return { id, value: update(hash, request.blobKeys) }
      const whole = hashes.get(hash) ?? createHash('sha256')
      hashes.delete(hash)
      return { id, value: request.type === 'digest' ? `sha256:${whole.digest('hex')}` : true }
    } catch (error) {
      return { id, error: serializeError(toRequestError(error)) }
    }
  }
}

/** How many bytes a request writes. */
export function sizeOf({ rows }: BlobRequest & { type: 'write' }): number {
  return rows.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
