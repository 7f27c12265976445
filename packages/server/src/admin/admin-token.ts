import { hash, timingSafeEqual } from 'node:crypto'
import { IngestError } from '@ingest/core'
import { bearerToken } from '../authenticate.ts'
import type { HttpRequest } from '../http/request.ts'
import { createErrorLog, type Log } from '../log.ts'

/** Minimum length of an admin token: too long to guess even without a rate limit. */
const adminTokenCharactersMin = 16

/**
 * On a 401, sets the challenge in `headers`.
 *
 * @throws {IngestError} `unauthorized`; `not-found` if no token is set
 */
type CheckToken = (request: HttpRequest, headers: Record<string, string>) => void

/**
 * Compares tokens in constant time. Wrong ones are logged, without their bytes, at most once a second.
 *
 * @throws {IngestError} `invalid-argument` for a token that is too short or not valid in a header
 */
export function createTokenCheck(token: string | undefined, log: Log): CheckToken {
  if (token === undefined) {
    return () => {
      throw new IngestError('not-found', 'The API of keys is off: set an admin token, such as INGEST_ADMIN_TOKEN.')
    }
  }
  if (token.length < adminTokenCharactersMin || bearerToken(`Bearer ${token}`) !== token) {
    const form = `at least ${adminTokenCharactersMin} of A-Z a-z 0-9 . _ ~ + / -`
    throw new IngestError(
      'invalid-argument',
      `The admin token (INGEST_ADMIN_TOKEN) must be ${form}: openssl rand -hex 32 makes one.`,
    )
  }
  const expected = digestOf(token)
  const logWarning = createErrorLog({ error: (fields, message) => log.warn(fields, message) })
  return ({ headers: { values }, socket }, headers) => {
    const given = bearerToken(values.authorization)
    if (typeof given === 'string' && timingSafeEqual(digestOf(given), expected)) return
    if (given !== undefined) {
      logWarning('unauthorized', { clientAddress: socket?.remoteAddress }, 'wrong admin token')
    }
    headers['WWW-Authenticate'] = 'Bearer realm="ingest-admin"'
    throw new IngestError('unauthorized', 'Authorization must be Bearer and the admin token.')
  }
}

/** Hashes tokens of any length to equal length. */
function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}
