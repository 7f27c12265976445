import { CommandFailure, exitCode } from '../exit-code.ts'

/** The target holds what the source does not. */
export function copyRefused(message: string): CommandFailure {
  return new CommandFailure({ exitCode: exitCode.refused, code: 'target-differs', message, retryable: false })
}

/** The copy is not what it should be. */
export function copyWrong(message: string): CommandFailure {
  return new CommandFailure({ exitCode: exitCode.invalid, code: 'copy-differs', message, retryable: false })
}

/** The source changes faster than it can be copied. */
export function sourceChanges(message: string): CommandFailure {
  return new CommandFailure({ exitCode: exitCode.temporary, code: 'source-changes', message, retryable: true })
}
