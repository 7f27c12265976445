import { CommanderError } from 'commander'
import { exitCode, toFailure } from './exit-code.ts'
import { type Io, printMessage, writeJson } from './io.ts'
import { createProgram, parseCommandLine } from './program.ts'

/**
 * Runs one command line, without the program name, and resolves to its exit code. A failed command does not reject: it
 * prints one line on standard error and, with `--json`, an object on standard output.
 */
export async function run(args: readonly string[], io: Io): Promise<number> {
  try {
    await parseCommandLine(createProgram(io), args, io.env)
    return exitCode.done
  } catch (error) {
    // --help and --version
    if (error instanceof CommanderError && error.exitCode === 0) return exitCode.done
    const { exitCode: code, details, isPrinted, ...failure } = toFailure(error)
    // interrupted by the user, with nothing to explain
    if (failure.message === '') return code
    printMessage(io, failure.message)
    // if standard output fails, standard error still has the failure
    if (wantsJson(args) && !isPrinted) await writeJson(io, { ok: false, ...details, error: failure }).catch(() => {})
    return code
  }
}

/** Whether `--json` is on the command line, even an invalid one. */
function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end === -1 ? undefined : end).includes('--json')
}
