import type { ErrorCode } from '@ingest/core'
import { CommanderError } from 'commander'
import { Interrupted } from './terminal/on-signal.ts'

/** What a command says to the shell. */
export const exitCode = {
  done: 0,
  /** Something that should not happen: please report it. */
  bug: 1,
  /** The command was called in a way that cannot work. */
  usage: 2,
  /** What is stored does not allow it. */
  refused: 3,
  credentials: 4,
  /** The input, or the store, is not what it should be. */
  invalid: 5,
  /** It may work later, unchanged. */
  temporary: 6,
  /** The file that was being uploaded is no longer what it was at the start. */
  changed: 7,
} as const

/** The exit code of each refusal. */
export const exitCodes: Record<ErrorCode, number> = {
  'batch-too-large': exitCode.invalid,
  'body-too-large': exitCode.invalid,
  'chunk-not-found': exitCode.refused,
  'chunk-too-large': exitCode.invalid,
  'chunk-undeclared': exitCode.temporary,
  'connection-failed': exitCode.temporary,
  'digest-mismatch': exitCode.invalid,
  'disk-full': exitCode.temporary,
  draining: exitCode.temporary,
  'headers-too-large': exitCode.invalid,
  'internal-error': exitCode.bug,
  'invalid-argument': exitCode.usage,
  'invalid-cursor': exitCode.usage,
  'invalid-envelope': exitCode.invalid,
  'invalid-publication': exitCode.invalid,
  'key-store-unavailable': exitCode.temporary,
  'malformed-body': exitCode.invalid,
  'malformed-request': exitCode.invalid,
  'map-frozen': exitCode.refused,
  'map-not-found': exitCode.refused,
  'map-quota-exceeded': exitCode.refused,
  'map-replaced': exitCode.temporary,
  // like the next, what the address of something else answers
  'method-not-allowed': exitCode.usage,
  'not-found': exitCode.usage,
  overloaded: exitCode.temporary,
  'precondition-failed': exitCode.refused,
  'range-not-satisfiable': exitCode.bug,
  'rate-limited': exitCode.temporary,
  'repeated-header': exitCode.bug,
  'request-timeout': exitCode.temporary,
  'source-changed': exitCode.changed,
  'store-closed': exitCode.temporary,
  'store-damaged': exitCode.invalid,
  'store-failed': exitCode.temporary,
  'store-incompatible': exitCode.invalid,
  'store-locked': exitCode.temporary,
  'store-missing': exitCode.usage,
  'too-many-events': exitCode.invalid,
  unauthorized: exitCode.credentials,
  // most often the address of something else
  'unexpected-response': exitCode.usage,
  'unknown-key': exitCode.refused,
  'unsupported-coding': exitCode.bug,
  'unsupported-media-type': exitCode.bug,
}

/** The table of exit codes as `--help` shows it. */
export const exitCodeHelp = `
Exit codes:
  0  done
  1  a bug: please report it
  2  wrong use: an option, an argument, a directory without a store, or a version of Node that is too old
  3  refused by what is stored, such as an unknown key, a frozen build, or a map or an event that is not there
  4  credentials
  5  invalid input, rejected events, or a damaged or foreign store
  6  temporary: the same command may work later
  7  the file changed while it was being uploaded
130, 143  ended by SIGINT, SIGTERM
`

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
