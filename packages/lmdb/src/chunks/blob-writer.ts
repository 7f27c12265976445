import type { MessagePort } from 'node:worker_threads'
import type { Environment } from '../environment/environment.ts'
import type { Place } from '../tables/maps.ts'
import type { ExitGuard, ExitGuards } from '../threads/exit-guard.ts'
import { runRequestLoop } from '../threads/request-loop.ts'
import { createCommit } from '../writer/commit.ts'

/** What the writer of bytes needs to know. */
export interface BytesWriterData {
  directory: string
  /** As {@link Environment} names them. */
  fileIds: string
  guards: ExitGuards
}

/** Bytes to be written, or places whose bytes go. */
export type BytesRequest =
  | { type: 'write'; id: number; rows: readonly { place: Uint8Array; bytes: Uint8Array<ArrayBuffer> }[] }
  | { type: 'remove'; id: number; places: readonly Uint8Array[] }

/** The memory in which the bytes were. */
export type BytesValue = ArrayBuffer[]

/** The one in a process who writes the bytes of chunks: many uploads, one transaction, one sync. */
export function runBytesWriter(port: MessagePort, environment: Environment, guard: ExitGuard): Promise<void> {
  const bytes = environment.table('bytes')
  const { commit, refuse, ready } = createCommit(environment)

  /** Answers with the memory that it was given, which is used again. */
  function write(request: BytesRequest): BytesValue {
    if (request.type === 'remove') {
      for (const place of request.places) bytes.remove(bufferOf(place))
      return []
    }
    for (const row of request.rows) bytes.put(bufferOf(row.place), bufferOf(row.bytes))
    return request.rows.map((row) => row.bytes.buffer)
  }

  return runRequestLoop<BytesRequest>(port, guard, async () => ({
    requestBytes: (request) => (request.type === 'write' ? sizeOf(request) : 0),
    async handle(requests) {
      try {
        await ready()
      } catch (error) {
        return refuse(requests, error)
      }
      return commit(requests, () => requests.map(write))
    },
    transferList: (outcomes) =>
      outcomes.flatMap((outcome) => ('value' in outcome ? (outcome.value as BytesValue) : [])),
    async close() {},
  }))
}

/** How many bytes a request has to write. */
export function sizeOf({ rows }: BytesRequest & { type: 'write' }): number {
  return rows.reduce((sum, { bytes }) => sum + bytes.length, 0)
}

/** What comes from another thread is no Buffer any more. */
function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Place {
  return Buffer.from(buffer, byteOffset, byteLength)
}
