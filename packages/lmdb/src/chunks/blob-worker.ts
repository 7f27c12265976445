import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from '../environment/environment.ts'
import { toRefusal } from '../threads/error-transfer.ts'
import { bytesGate, gateAt } from '../threads/exit-guard.ts'
import type { FromThread } from '../threads/request-loop.ts'
import { standBack } from '../threads/thread-priority.ts'
import { type BlobWriterData, runBlobWriter } from './blob-writer.ts'

// The thread that writes the blobs of chunks. It has an environment of its own.

// uploads yield to events
standBack(5)

const data = workerData as BlobWriterData
const gate = gateAt(data.gates, bytesGate)
const port = parentPort as MessagePort
try {
  const environment = openEnvironment(data.directory, data)
  await runBlobWriter(port, environment, gate)
  await environment.root.close()
} catch (error) {
  port.postMessage({ type: 'refused', refusal: toRefusal(error) } satisfies FromThread)
}
gate.leave()
port.close()
