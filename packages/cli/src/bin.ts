import { exitCode } from './exit-code.ts'
import { printMessage, processIo } from './io.ts'
import { run } from './run.ts'

const io = processIo()
// if nothing is left that could settle the command, Node.js would exit with 0
process.once('beforeExit', endUnsettled)
process.exitCode = await run(process.argv.slice(2), io)
process.off('beforeExit', endUnsettled)
// a reader that has stopped reading the log must not keep the process alive
setTimeout(() => process.stdout.writableLength === 0 && process.exit(), 1000).unref()

function endUnsettled(): void {
  printMessage(io, 'the command has ended without a result: please report it')
  process.exitCode = exitCode.bug
}
