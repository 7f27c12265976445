import { type Digest, IngestError, type MapId } from '@ingest/core'
import type { Reply } from '../http/connection.ts'
import { unexpectedAnswer } from '../http/error-from-response.ts'
import type { Api, ApiCall, CallOptions } from './api.ts'

/** A part of a complete map. */
export interface ContentPart extends MapId {
  digest: Digest
  /** Of the whole map, in bytes. */
  size: number
  start: number
  /** Behind the last byte of the part. */
  end: number
}

/**
 * The bytes of a part, as they come. A download that breaks goes on where it broke, and only in the same map: its digest
 * is its ETag, so that a map that was replaced in between is noticed.
 *
 * @throws {IngestError} `invalid-argument` for a part that is not in the map, `map-replaced`.
 */
export async function* readContent(
  api: Api,
  { placeId, buildId, digest, size, start, end }: ContentPart,
  options?: CallOptions,
): AsyncGenerator<Uint8Array, void> {
  if (!(Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && start <= end && end <= size)) {
    throw new IngestError('invalid-argument', `A part of this map begins and ends between 0 and ${size}.`)
  }
  const etag = `"${digest}"`
  let at = start
  if (start === end) return
  try {
    yield* api.stream(request, rest, options)
  } catch (error) {
    if (error instanceof IngestError && error.status === 412) throw replaced()
    throw error
  }

  function request(): ApiCall {
    const isWhole = at === 0 && end === size
    return {
      method: 'GET',
      path: '/v1/maps/content',
      query: { placeId, buildId },
      headers: { 'if-match': etag, ...(!isWhole && { range: `bytes=${at}-${end - 1}` }) },
      expect: [200, 206],
    }
  }

  async function* rest({ status, headers, body, leave }: Reply): AsyncGenerator<Uint8Array, void> {
    try {
      if (headers.etag !== etag) throw replaced()
      // whatever stands between may leave out the range, and then all of the map comes
      let position = status === 206 ? firstOf(headers['content-range']) : 0
      if (position > at) throw unexpectedAnswer('it is another part of the map')
      for await (const piece of body) {
        const wanted = piece.subarray(Math.max(0, at - position), end - position)
        position += piece.length
        if (wanted.length > 0) {
          at += wanted.length
          yield wanted
        }
        if (at === end) return
      }
      throw new IngestError('connection-failed', 'The answer ended before the end of the map.')
    } finally {
      leave()
    }
  }
}

/** Where a part begins: `bytes 5-9/10` (RFC 9110 section 14.4). */
function firstOf(contentRange = ''): number {
  const [, first] = /^bytes (\d+)-/.exec(contentRange) ?? []
  if (first === undefined) throw unexpectedAnswer('it does not say which part of the map it is')
  return Number(first)
}

function replaced(): IngestError {
  return new IngestError('map-replaced', 'The map was replaced while it was being read: read it again.')
}
