import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from '../environment/environment.ts'
import { toRefusal } from '../threads/error-transfer.ts'
import { gateAt, writerGate } from '../threads/exit-guard.ts'
import type { FromThread } from '../threads/request-loop.ts'
import { runWriter, type WriterData } from './writer.ts'

// The thread that writes the log. It has an environment of its own.

const data = workerData as WriterData
const gate = gateAt(data.gates, writerGate)
const port = parentPort as MessagePort
try {
  const environment = openEnvironment(data.directory, data)
  await runWriter(port, environment, data, gate)
  await environment.root.close()
} catch (error) {
  port.postMessage({ type: 'refused', refusal: toRefusal(error) } satisfies FromThread)
}
gate.leave()
port.close()
