import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from './environment.ts'
import { gateAt, writerGate } from './gates.ts'
import { runWriter, type WriterData } from './writer.ts'

// The thread that writes to the log. It has handles of its own.

const data = workerData as WriterData
const gate = gateAt(data.gates, writerGate)
const port = parentPort as MessagePort
const environment = openEnvironment(data.directory)
await runWriter(port, environment, data, gate)
await environment.root.close()
gate.leave()
port.close()
