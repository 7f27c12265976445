import { processIo } from './io.ts'
import { run } from './run.ts'

process.exitCode = await run(process.argv.slice(2), processIo())
// a reader of the log that has stopped does not keep the process
setTimeout(() => process.stdout.writableLength === 0 && process.exit(), 1000).unref()
