import type { MessagePort } from 'node:worker_threads'
import { createCommit } from './commit.ts'
import type { Environment } from './environment.ts'
import type { Gate, Gates } from './gates.ts'
import type { Place } from './maps.ts'
import { serveRequests } from './serve-requests.ts'

/** What the writer of bytes needs to know. */
export interface BytesWriterData {
  directory: string
  gates: Gates
}

/** Bytes to be written, or places whose bytes go. */
export type BytesRequest =
  | { type: 'write'; id: number; rows: readonly { place: Uint8Array; bytes: Uint8Array }[] }
  | { type: 'remove'; id: number; places: readonly Uint8Array[] }

/** The one in a process who writes the bytes of chunks: many uploads, one transaction, one sync. */
export function runBytesWriter(port: MessagePort, environment: Environment, gate: Gate): Promise<void> {
  const bytes = environment.table('bytes')
  const { commit } = createCommit(environment)

  function write(request: BytesRequest): void {
    if (request.type === 'write') for (const row of request.rows) bytes.put(bufferOf(row.place), bufferOf(row.bytes))
    else for (const place of request.places) bytes.remove(bufferOf(place))
  }

  return serveRequests<BytesRequest>(port, gate, async () => ({
    bytesOf: (request) => (request.type === 'write' ? sizeOf(request) : 0),
    answer: async (requests) => commit(requests, () => requests.map(write)),
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
