import { type ErrorCode, errorTable, IngestError } from '@ingest/core'
import { asPermissionDenied } from '@ingest/core/internal'
import { CommanderError } from 'commander'

/** The exit codes of all commands. */
export const exitCode = {
  done: 0,
  /** An internal error: please report it. */
  bug: 1,
  /** Wrong usage. */
  usage: 2,
  /** The stored data does not allow the operation. */
  refused: 3,
  credentials: 4,
  /** Invalid input, a damaged or incompatible store, or a sender that breaks a rule. */
  invalid: 5,
  /** The same command may succeed later. */
  temporary: 6,
  /** The file changed during the upload. */
  changed: 7,
} as const

/** Error codes whose exit code does not follow from the table of errors. */
const exceptions: Readonly<Partial<Record<ErrorCode, number>>> = {
  // a server that its operator has to correct
  'body-consumed': exitCode.usage,
  'chunk-undeclared': exitCode.temporary,
  'internal-error': exitCode.bug,
  'invalid-argument': exitCode.usage,
  'invalid-cursor': exitCode.usage,
  'consumer-quota-exceeded': exitCode.refused,
  'map-quota-exceeded': exitCode.refused,
  // usually the URL of another service
  'not-found': exitCode.usage,
  'permission-denied': exitCode.usage,
  'range-not-satisfiable': exitCode.bug,
  'repeated-header': exitCode.bug,
  'source-changed': exitCode.changed,
  'store-missing': exitCode.usage,
  'unsupported-coding': exitCode.bug,
  'unsupported-media-type': exitCode.bug,
}

const exitCodeByStatus: Readonly<Record<number, number>> = {
  400: exitCode.invalid,
  401: exitCode.credentials,
  404: exitCode.refused,
  405: exitCode.usage,
  409: exitCode.refused,
  412: exitCode.refused,
  413: exitCode.invalid,
  431: exitCode.invalid,
  // a damaged or foreign store
  500: exitCode.invalid,
  // a response that is not from an Ingest server
  502: exitCode.usage,
}

/** The exit code of an error code. */
export function exitCodeOf(code: ErrorCode): number {
  const { status, retryable } = errorTable[code]
  return exceptions[code] ?? (retryable ? exitCode.temporary : (exitCodeByStatus[status] ?? exitCode.bug))
}

/** The table of exit codes in `--help`. */
export const exitCodeHelp = `
Exit codes:
  0  done
  1  a bug: please report it
  2  wrong usage: an option, an argument, a missing store, a file of another user, a database that refuses the role, or
     an unsupported version of Node
  3  refused because of the stored data: an unknown key, a frozen build, or a missing project, map or event
  4  missing or invalid credentials
  5  invalid input, rejected events, a damaged, foreign or incompatible store, or a sender that breaks a rule
  6  temporary failure: the same command may succeed later
  7  the file changed during the upload
130, 143  ended by SIGINT, SIGTERM
`

/** A failed command, as reported to the shell, people and programs. */
export interface Failure {
  exitCode: number
  /** The code of an `IngestError`, one of the command's own, `interrupted` or `internal-error`. */
  code: string
  message: string
  /** Whether the same command may succeed later. */
  retryable: boolean
  /** Further members of the `--json` object. */
  details?: object
  /** Whether the `--json` object is already on standard output. */
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

/** A failure caused by the stored data. */
export function refusal(code: string, message: string): CommandFailure {
  return new CommandFailure({ exitCode: exitCode.refused, code, message, retryable: false })
}

/** Describes any error that a command threw. An unknown error is a bug; its stack becomes the message. */
export function toFailure(thrown: unknown): Failure {
  const error = asPermissionDenied(thrown)
  if (error instanceof CommanderError) {
    const hint = error.code === 'commander.unknownCommand' ? ': `ingest --help` lists the commands' : ''
    const message = `${error.message.replace(/^error: /, '')}${hint}`
    return { exitCode: exitCode.usage, code: 'invalid-argument', message, retryable: false }
  }
  if (error instanceof CommandFailure) return error.failure
  if (error instanceof IngestError) {
    const { code, message, retryable, cause } = error
    if (code !== 'internal-error') return { exitCode: exitCodeOf(code), code, message, retryable }
    // an error from a thread has its stack in the cause
    const stack = cause === undefined ? '' : ` ${(cause as Error).stack ?? cause}`
    return { exitCode: exitCode.bug, code, message: `${message}${stack}`, retryable: false }
  }
  const message = `${(error as Error).stack ?? error}`
  return { exitCode: exitCode.bug, code: 'internal-error', message, retryable: false }
}
