import { CommanderError } from 'commander'
import { exitCode, exitCodes } from './exit-code.ts'
import { Interrupted } from './until-signal.ts'

/** What went wrong, for the shell, for people, and for programs. */
export interface Failure {
  exitCode: number
  /** What programs decide by: the code of a refusal, `interrupted`, or `internal-error`. */
  code: string
  message: string
  /** Whether the same command may succeed later, unchanged. */
  retryable: boolean
  /** What the object of `--json` has beside it. */
  details?: object
  /** Whether standard output has the object of `--json` already. */
  isPrinted?: boolean
}

/** A failure of which a command says all by itself. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.message)
    this.failure = failure
  }
}

export async function failureOf(error: unknown): Promise<Failure> {
  if (error instanceof CommanderError) {
    const message = error.message.replace(/^error: /, '')
    return { exitCode: exitCode.usage, code: 'invalid-argument', message, retryable: false }
  }
  if (error instanceof CommandFailure) return error.failure
  if (error instanceof Interrupted) {
    return { exitCode: error.exitCode, code: 'interrupted', message: error.message, retryable: true }
  }
  // loaded here, so that --help and wrong use answer at once
  const { IngestError } = await import('@ingest/core')
  if (error instanceof IngestError) {
    const { code, message, retryable } = error
    return { exitCode: exitCodes[code], code, message, retryable }
  }
  const message = `${(error as Error).stack ?? error}`
  return { exitCode: exitCode.bug, code: 'internal-error', message, retryable: false }
}
