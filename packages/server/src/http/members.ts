import { IngestError } from '@ingest/core'
import { type JsonObject, parseJson, stripByteOrderMark } from '@ingest/core/internal'
import { checkBodyHeaders, limitBody } from './body.ts'
import type { HttpRequest } from './request.ts'

/** The largest body of a request with a few members. */
export const membersBytesMax = 16_384

const limit = limitBody(membersBytesMax, 'body-too-large', `The body holds at most ${membersBytesMax} bytes.`)
const kinds = new Map([['application/json', { limit }]])

/**
 * The members of a small JSON object. Unknown members are refused: a key with a misspelt `expiresAt` would never
 * expire.
 *
 * @throws {IngestError} `invalid-argument`, and the errors of `checkBodyHeaders` and `HttpRequest.readBody`
 */
export async function readMembers(request: HttpRequest, names: readonly string[]): Promise<JsonObject> {
  const { gzip } = checkBodyHeaders(request.headers, kinds)
  const value = parseJson(stripByteOrderMark(await request.readBody(gzip, limit)))
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new IngestError('invalid-argument', 'The body must be an object.')
  }
  const unknown = Object.keys(value).find((name) => !names.includes(name))
  if (unknown === undefined) return value as JsonObject
  throw new IngestError('invalid-argument', `The body has an unknown member; it takes only ${names.join(', ')}.`)
}
