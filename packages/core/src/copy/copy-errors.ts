import { IngestError } from '../error.ts'

/** The target holds what the source does not. */
export function copyRefused(message: string): IngestError {
  return new IngestError('precondition-failed', message)
}

/** The copy is not what it should be. */
export function copyWrong(message: string): IngestError {
  return new IngestError('digest-mismatch', message)
}

/** The source changes faster than it can be copied. */
export function sourceChanges(message: string): IngestError {
  return new IngestError('source-changed', message)
}
