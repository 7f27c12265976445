import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from '../environment/environment.ts'
import { serializeError } from '../threads/error-transfer.ts'
import { exitGuardAt, writerSlot } from '../threads/exit-guard.ts'
import type { ThreadMessage } from '../threads/request-loop.ts'
import { runWriter, type WriterData } from './writer.ts'

// The thread that writes the log. It has an environment of its own.

const data = workerData as WriterData
const guard = exitGuardAt(data.guards, writerSlot)
const port = parentPort as MessagePort
try {
  const environment = await openEnvironment(data.directory, data)
  try {
    await runWriter(port, environment, data, guard)
  } finally {
    await environment.close()
  }
} catch (error) {
  port.postMessage({ type: 'failed', error: serializeError(error) } satisfies ThreadMessage)
}
guard.leaveNative()
port.close()
