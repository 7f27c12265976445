import { IngestError } from './error.ts'
import { buildIdIssue } from './publication.ts'

/** Where a list of builds goes on: behind this build. */
export function encodeBuildCursor(buildId: string): string {
  return Buffer.from(JSON.stringify([buildId])).toString('base64url')
}

/** @throws {IngestError} `invalid-cursor` for what {@link encodeBuildCursor} has not made. */
export function decodeBuildCursor(cursor: string): string {
  try {
    const [buildId] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (!buildIdIssue(buildId, '') && encodeBuildCursor(buildId) === cursor) return buildId
  } catch {
    // said below
  }
  throw new IngestError('invalid-cursor', 'The cursor is not one that a list of builds has given out.')
}
