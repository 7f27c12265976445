import type { MessagePort } from 'node:worker_threads'
import type { Environment } from '../environment/environment.ts'
import type { ExitGuard, ExitGuards } from '../threads/exit-guard.ts'
import { runRequestLoop } from '../threads/request-loop.ts'
import { asBuffer } from '../writer/commands.ts'
import { createCommit } from '../writer/commit.ts'

export interface BlobWriterData {
  directory: string
  /** {@link Environment.fileIds} */
  fileIds: string
  guards: ExitGuards
}

/** Blobs to write, or the keys of blobs to delete. */
export type BlobRequest =
  | { type: 'write'; id: number; rows: readonly { blobKey: Uint8Array; bytes: Uint8Array<ArrayBuffer> }[] }
  | { type: 'remove'; id: number; blobKeys: readonly Uint8Array[] }

/** Writes the blobs of a process: many requests, one transaction, one sync. */
export function runBlobWriter(port: MessagePort, environment: Environment, guard: ExitGuard): Promise<void> {
  const blobs = environment.table('bytes')
  const { commit, refuse, ready } = createCommit(environment)

  function write(request: BlobRequest): true {
    if (request.type === 'remove') for (const blobKey of request.blobKeys) blobs.remove(asBuffer(blobKey))
    else for (const { blobKey, bytes } of request.rows) blobs.put(asBuffer(blobKey), asBuffer(bytes))
    return true
  }

  return runRequestLoop<BlobRequest>(port, guard, async () => ({
    requestBytes: (request) => (request.type === 'write' ? sizeOf(request) : 0),
    async handle(requests) {
      try {
        await ready()
      } catch (error) {
        return refuse(requests, error)
      }
      return commit(requests, () => requests.map(write))
    },
    async close() {},
  }))
}

/** How many bytes a request writes. */
export function sizeOf({ rows }: BlobRequest & { type: 'write' }): number {
  return rows.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
