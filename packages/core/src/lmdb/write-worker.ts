import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type BytesWriterData, runBytesWriter } from './bytes-writer.ts'
import { openEnvironment } from './environment.ts'
import { bytesGate, gateAt, writerGate } from './gates.ts'
import { toRefusal } from './refusal.ts'
import type { FromThread } from './serve-requests.ts'
import { standBack } from './stand-back.ts'
import { runWriter, type WriterData } from './writer.ts'

// A thread that writes, to the log or the bytes of chunks. It has handles of its own.

const data = workerData as (WriterData & { task: 'log' }) | (BytesWriterData & { task: 'bytes' })
// maps have time, events have not
if (data.task === 'bytes') standBack(5)

const gate = gateAt(data.gates, data.task === 'log' ? writerGate : bytesGate)
const port = parentPort as MessagePort
try {
  const environment = openEnvironment(data.directory, data)
  await (data.task === 'log' ? runWriter(port, environment, data, gate) : runBytesWriter(port, environment, gate))
  await environment.root.close()
} catch (error) {
  port.postMessage({ type: 'refused', refusal: toRefusal(error) } satisfies FromThread)
}
gate.leave()
port.close()
