import type { VerificationOptions } from '@ingest/core'
import type { BodyLimit } from '../http/request.ts'
import { readChargedBody } from '../limits/charged-body.ts'
import type { RouteContext } from '../route.ts'

/**
 * Reads the body of an upload and passes it to `store`, with options for the verification of a map: its bytes are
 * charged to the project, and it ends when the client disconnects or the server drains.
 *
 * @throws {IngestError} `rate-limited`; what `HttpRequest.readBody` and `store` throw.
 */
export async function storeUpload<Result>(
  { request, ingest: { projectId }, limiter, onCancel }: RouteContext,
  encoding: { gzip: boolean; limit: BodyLimit },
  store: (body: Uint8Array, options: VerificationOptions) => Promise<Result>,
): Promise<Result> {
  const { body, chargedBytes } = await readChargedBody(request, encoding, {
    admit: (bytes) => limiter.admitMapBytes(projectId, bytes),
    charge: (bytes) => limiter.chargeMapBytes(projectId, bytes),
  })
  const controller = new AbortController()
  const stopWatching = onCancel((reason) => controller.abort(reason))
  try {
    return await store(body, {
      signal: controller.signal,
      admit: (bytes) => limiter.admitMapBytes(projectId, bytes, chargedBytes),
    })
  } finally {
    stopWatching()
  }
}
