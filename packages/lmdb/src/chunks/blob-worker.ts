import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from '../environment/environment.ts'
import { serializeError } from '../threads/error-transfer.ts'
import { blobSlot, exitGuardAt } from '../threads/exit-guard.ts'
import type { ThreadMessage } from '../threads/request-loop.ts'
import { lowerThreadPriority } from '../threads/thread-priority.ts'
import { type BytesWriterData, runBytesWriter } from './blob-writer.ts'

// The thread that writes the bytes of chunks. It has an environment of its own.

// uploads yield to events
lowerThreadPriority(5)

const data = workerData as BytesWriterData
const guard = exitGuardAt(data.guards, blobSlot)
const port = parentPort as MessagePort
try {
  const environment = openEnvironment(data.directory, data)
  await runBytesWriter(port, environment, guard)
  await environment.root.close()
} catch (error) {
  port.postMessage({ type: 'failed', error: serializeError(error) } satisfies ThreadMessage)
}
guard.leaveNative()
port.close()
