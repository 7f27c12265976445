import type { MessagePort } from 'node:worker_threads'
import type { Environment } from '../environment/environment.ts'
import { createCommit } from '../threads/commit.ts'
import type { ExitGuard } from '../threads/exit-guard.ts'
import { type Handled, runRequestLoop, type WriteThreadData } from '../threads/request-loop.ts'
import { asBuffer } from '../threads/run-command.ts'

/** Blobs to write, or the keys of blobs to delete. */
export type BlobRequest =
  | { type: 'write'; id: number; rows: readonly { blobKey: Uint8Array; bytes: Uint8Array }[] }
  | { type: 'remove'; id: number; blobKeys: readonly Uint8Array[] }

/** Writes the blobs of a process; many requests share one transaction and one sync. */
export function runBlobWriter(
  port: MessagePort,
  environment: Environment,
  { commitState }: WriteThreadData,
  guard: ExitGuard,
): Promise<void> {
  const blobs = environment.table('bytes')
  const { commit, refuse, ready, turn } = createCommit<BlobRequest, true>(environment, commitState, { write })

  /** A copy of rows in shared memory, which LMDB's binding cannot read. */
  let copy = Buffer.alloc(0)

  function bytesOf({ bytes }: { bytes: Uint8Array }): Buffer {
    if (bytes.buffer instanceof ArrayBuffer) return asBuffer(bytes)
    if (copy.length < bytes.length) copy = Buffer.allocUnsafeSlow(bytes.length)
    copy.set(bytes)
    return copy.subarray(0, bytes.length)
  }

  function write(request: BlobRequest): true {
    if (request.type === 'remove') for (const blobKey of request.blobKeys) blobs.remove(asBuffer(blobKey))
    else for (const row of request.rows) blobs.put(asBuffer(row.blobKey), bytesOf(row))
    return true
  }

  return runRequestLoop<BlobRequest>(port, guard, async () => ({
    requestBytes: (request) => (request.type === 'write' ? sizeOf(request) : 0),
    isRead: () => false,
    handle: writeAll,
    async close() {},
  }))

  async function writeAll(requests: readonly BlobRequest[], settle: (handled: Handled) => void): Promise<void> {
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

/** The size of a write request, in bytes. */
export function sizeOf({ rows }: Pick<BlobRequest & { type: 'write' }, 'rows'>): number {
  return rows.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
