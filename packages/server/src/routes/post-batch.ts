import { batchBytesMax } from '@ingest/core'
import { batchTooLarge } from '@ingest/core/internal'
import { checkBodyHeaders } from '../http/body-headers.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { readChargedBody } from '../limits/charged-body.ts'
import type { RouteContext } from '../route.ts'
import type { BatchResult, Body } from './bodies.ts'

const limit = { bytesMax: batchBytesMax, tooLarge: batchTooLarge }
const kinds = new Map([['application/json', { limit }]])

/**
 * `POST /v1/events/batch`: 202 with the outcome of each event.
 *
 * @throws {IngestError}
 */
export async function postBatch({ request, ingest, limiter }: RouteContext): Promise<HttpResponse> {
  const { projectId } = ingest
  const { gzip } = checkBodyHeaders(request.headers, kinds)
  const { body, chargedBytes } = await readChargedBody(
    request,
    { gzip, limit },
    {
      admit: (bytes) => limiter.admitRequest(projectId, bytes),
      charge: (bytes) => limiter.chargeBatchBytes(projectId, bytes),
    },
  )
  const result = await ingest.submitBatch(body, {
    admit: (count) => limiter.admitEvents(projectId, count, chargedBytes),
    mayTransfer: true,
  })
  return jsonResponse<Body<typeof BatchResult>>(202, result)
}
