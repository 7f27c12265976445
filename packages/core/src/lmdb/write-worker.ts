import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from './environment.ts'
import { runWriter, type WriterData } from './writer.ts'

// The thread that writes to the log. It has handles of its own.

const data = workerData as WriterData
const port = parentPort as MessagePort
const environment = openEnvironment(data.directory)
await runWriter(port, environment, data)
await environment.root.close()
port.close()
