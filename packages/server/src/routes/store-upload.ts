import type { VerificationOptions } from '@ingest/core'
import { readChargedBody } from '../http/body.ts'
import type { BodyLimit } from '../http/request.ts'
import { smallBytesMax } from '../uploads/upload-parser.ts'
import type { RouteContext } from './route.ts'

/**
 * The charge for each member or element of a large JSON body, in addition to its bytes, because parsing takes time for
 * each.
 */
export const memberBytes = 64

/**
 * Reads the body of an upload and passes it to `store`, with options for the verification of a map: its bytes are
 * charged to the project, and it is cancelled when the client disconnects or the server drains.
 *
 * @throws {IngestError} `rate-limited`; what `HttpRequest.readBody` and `store` throw.
 */
export async function storeUpload<Result>(
  { request, ingest: { projectId }, limiter, upload, record, onCancel }: RouteContext,
  encoding: { gzip: boolean; limit: BodyLimit; isJson: boolean },
  store: (body: Uint8Array, options: VerificationOptions) => Promise<Result>,
): Promise<Result> {
  const { gzip, limit } = encoding
  const { body, chargedBytes } = await readChargedBody(
    request,
    { gzip, limit: { ...limit, ...upload } },
    {
      admit: (bytes) => limiter.admit(projectId, { mapRequests: 1, mapBytes: bytes }),
      charge: (bytes) => limiter.charge(projectId, { mapBytes: bytes }),
    },
  )
  if (record) record.receivedBytes = body.length
  if (encoding.isJson && body.length > smallBytesMax)
    await limiter.charge(projectId, { mapBytes: memberBytes * countMembers(body) })
  const controller = new AbortController()
  const stopWatching = onCancel((reason) => controller.abort(reason))
  try {
    return await store(body, {
      signal: controller.signal,
      admit: (bytes) => limiter.admit(projectId, { mapBytes: bytes }, { charged: { mapBytes: chargedBytes } }),
    })
  } finally {
    stopWatching()
  }
}

const comma = 0x2c

/** The approximate number of members and elements of a JSON text: its commas. */
function countMembers(body: Uint8Array): number {
  let count = 1
  for (let at = body.indexOf(comma); at >= 0; at = body.indexOf(comma, at + 1)) count++
  return count
}
