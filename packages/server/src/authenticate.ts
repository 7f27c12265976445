import { type Authenticated, type EmbeddedIngest, IngestError, type Scope } from '@ingest/core'
import { isProjectId } from '@ingest/core/internal'
import type { Wait } from './http/cancellation.ts'
import type { RequestHeaders } from './http/request.ts'
import type { LogError } from './log.ts'

/** The project of a request; with the key's id if it has one. */
export interface Authorized extends Authenticated {
  projectId: string
}

/**
 * Returns the project and the key of a request whose key has the scope.
 *
 * @throws {IngestError} `unauthorized`; `key-store-unavailable` when the keys cannot be checked.
 */
export async function authenticateRequest(
  { ingest, logError }: { ingest: EmbeddedIngest; logError: LogError },
  { values, repeated }: RequestHeaders,
  scope: Scope,
  wait: Wait,
): Promise<Authorized> {
  const { 'x-project-id': projectId } = values
  const key = keyOf(values)
  const isRepeated = repeated.includes('x-project-id') || repeated.includes('x-ingestion-key')
  if (isRepeated || !isProjectId(projectId) || key === undefined || key === '') throw unauthorized()
  let authenticated: Authenticated | boolean
  try {
    authenticated = await wait(ingest.authenticate({ projectId, key, scope }))
  } catch (error) {
    // not a 401: game servers would stop sending for minutes
    logError('key-store-unavailable', { err: error, projectId }, 'keys cannot be checked')
    throw keysUnavailable(error)
  }
  const keyId = authenticated === true ? null : keyIdFrom(authenticated)
  if (keyId === undefined) throw unauthorized()
  return { projectId, keyId }
}

/** The key id of a successful check; undefined otherwise. An embedder without types may return anything. */
function keyIdFrom(authenticated: unknown): string | null | undefined {
  const { keyId } = (authenticated ?? {}) as Partial<Authenticated>
  return typeof keyId === 'string' || keyId === null ? keyId : undefined
}

/**
 * The key of either header; undefined if they differ or are missing. Other schemes of `Authorization` are for a proxy
 * in front.
 */
export function keyOf({ 'x-ingestion-key': key, authorization }: RequestHeaders['values']): string | undefined {
  const token = bearerToken(authorization)
  if (token === undefined) return key
  return token !== null && (key === undefined || key === token) ? token : undefined
}

/**
 * The token of an `Authorization` header (RFC 6750 section 2.1); undefined without a header or for another scheme such
 * as `Basic`; null if it is malformed or repeated.
 */
export function bearerToken(authorization: string | undefined): string | null | undefined {
  if (authorization === undefined || !/(?:^|,)\s*bearer(?:\s|,|$)/i.test(authorization)) return undefined
  return /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization.trim())?.[1] ?? null
}

function keysUnavailable(error: unknown): IngestError {
  const retryAfterSeconds = error instanceof IngestError ? error.retryAfterSeconds : undefined
  const details = retryAfterSeconds === undefined ? {} : { retryAfterSeconds }
  return new IngestError('key-store-unavailable', 'Keys cannot be checked now: try again later.', details)
}

/** The same error for every cause, so that it discloses nothing. */
function unauthorized(): IngestError {
  return new IngestError(
    'unauthorized',
    'X-Project-Id, and X-Ingestion-Key or Authorization: Bearer, must be those of an active key with the scope of the request.',
  )
}
