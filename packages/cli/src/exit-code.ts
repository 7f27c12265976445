import { type ErrorCode, IngestError } from '@ingest/core'
import { CommanderError } from 'commander'
import { Interrupted } from './terminal/on-signal.ts'

/** The exit codes of all commands. */
export const exitCode = {
  done: 0,
  /** An internal error: please report it. */
  bug: 1,
  /** Wrong usage. */
  usage: 2,
  /** The stored data does not allow it. */
  refused: 3,
  credentials: 4,
  /** Invalid input, or a damaged store. */
  invalid: 5,
  /** The same command may succeed later. */
  temporary: 6,
  /** The file changed during the upload. */
  changed: 7,
} as const

/** The exit code of each error code. */
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
  // most often the URL of another service, as with not-found and unexpected-response
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
  'store-unavailable': exitCode.temporary,
  'store-failed': exitCode.temporary,
  'store-incompatible': exitCode.invalid,
  'store-locked': exitCode.temporary,
  'store-missing': exitCode.usage,
  'too-many-events': exitCode.invalid,
  unauthorized: exitCode.credentials,
  'unexpected-response': exitCode.usage,
  'unknown-key': exitCode.refused,
  'unsupported-coding': exitCode.bug,
  'unsupported-media-type': exitCode.bug,
}

/** The table of exit codes in `--help`. */
export const exitCodeHelp = `
Exit codes:
  0  done
  1  a bug: please report it
  2  wrong usage: an option, an argument, a directory without a store, or an unsupported version of Node
  3  refused because of the stored data: an unknown key, a frozen build, or a missing project, map or event
  4  missing or invalid credentials
  5  invalid input, rejected events, or a damaged or foreign store
  6  temporary failure: the same command may succeed later
  7  the file changed during the upload
130, 143  ended by SIGINT, SIGTERM
`

/** A failed command, as it is reported to the shell, people and programs. */
export interface Failure {
  exitCode: number
  /** The code of an `IngestError`, one of the command's own, `interrupted` or `internal-error`. */
  code: string
  message: string
  /** Whether the same command may succeed later. */
  retryable: boolean
  /** Further members of the object of `--json`. */
  details?: object
  /** Whether the object of `--json` is already on standard output. */
  isPrinted?: boolean
}

/** Thrown by commands for a failure that they describe themselves. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure'
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.message)
    this.failure = failure
  }
}

/** Describes any error that a command threw. An unknown one is a bug, with its stack as the message. */
export async function toFailure(error: unknown): Promise<Failure> {
  if (error instanceof CommanderError) {
    const message = error.message.replace(/^error: /, '')
    return { exitCode: exitCode.usage, code: 'invalid-argument', message, retryable: false }
  }
  if (error instanceof CommandFailure) return error.failure
  if (error instanceof Interrupted) {
    return { exitCode: error.exitCode, code: 'interrupted', message: error.message, retryable: true }
  }
  if (error instanceof IngestError) {
    const { code, message, retryable } = error
    return { exitCode: exitCodes[code], code, message, retryable }
  }
  const message = `${(error as Error).stack ?? error}`
  return { exitCode: exitCode.bug, code: 'internal-error', message, retryable: false }
}
