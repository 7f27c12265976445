import { type EmbeddedIngest, IngestError, type Scope } from '@ingest/core'
import { isProjectId } from '@ingest/core/internal'
import type { RequestHeaders } from './http/request.ts'
import type { Log } from './log.ts'

/**
 * Returns the project of a request whose key has the scope.
 *
 * @throws {IngestError} `unauthorized`; `key-store-unavailable` when the keys cannot be checked.
 */
export async function authenticateRequest(
  { ingest, log }: { ingest: EmbeddedIngest; log: Log },
  { values, repeated }: RequestHeaders,
  scope: Scope,
): Promise<string> {
  const { 'x-project-id': projectId, 'x-ingestion-key': key } = values
  const isRepeated = repeated.includes('x-project-id') || repeated.includes('x-ingestion-key')
  if (isRepeated || !isProjectId(projectId) || key === undefined || key === '') throw unauthorized()
  let isAuthentic: boolean
  try {
    isAuthentic = await ingest.authenticate({ projectId, key, scope })
  } catch (error) {
    // not a 401: game servers would stop sending for minutes
    log.error({ err: error, projectId }, 'keys cannot be checked')
    throw new IngestError('key-store-unavailable', 'Keys cannot be checked now: try again later.')
  }
  if (isAuthentic !== true) throw unauthorized()
  return projectId
}

/** The same for every cause, so that it discloses nothing. */
function unauthorized(): IngestError {
  return new IngestError('unauthorized', 'X-Project-Id and X-Ingestion-Key must be those of an active key.')
}
