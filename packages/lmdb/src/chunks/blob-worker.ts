import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { lowerThreadPriority } from '@ingest/core/internal'
import { openEnvironment } from '../environment/environment.ts'
import { serializeError } from '../threads/error-transfer.ts'
import { blobSlot, exitGuardAt } from '../threads/exit-guard.ts'
import type { ThreadMessage } from '../threads/request-loop.ts'
import { type BlobWriterData, runBlobWriter } from './blob-writer.ts'

// The thread that writes the blobs of chunks. It has an environment of its own.

// uploads yield to events
lowerThreadPriority(5)

const data = workerData as BlobWriterData
const guard = exitGuardAt(data.guards, blobSlot)
const port = parentPort as MessagePort
try {
  const environment = await openEnvironment(data.directory, data)
  try {
    await runBlobWriter(port, environment, data, guard)
  } finally {
    await environment.close()
  }
} catch (error) {
  port.postMessage({ type: 'failed', error: serializeError(error) } satisfies ThreadMessage)
}
guard.leaveNative()
port.close()
