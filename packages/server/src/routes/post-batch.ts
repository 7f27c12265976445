import { batchBytesMax, batchEventsMax } from '@ingest/core'
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
export async function postBatch({ request, ingest, limiter, record, wait }: RouteContext): Promise<HttpResponse> {
  const { projectId } = ingest
  const { gzip } = checkBodyHeaders(request.headers, kinds)
  const { body, chargedBytes } = await readChargedBody(
    request,
    { gzip, limit },
    {
      // the number of events is not known yet: a retry may be a full batch
      admit: (bytes) =>
        limiter.admit(projectId, { requests: 1, batchBytes: bytes }, { retry: { events: batchEventsMax } }),
      charge: (bytes) => limiter.charge(projectId, { batchBytes: bytes }),
    },
  )
  if (record) record.bodyAt = performance.now()
  const submit = () =>
    ingest.submitBatch(body, {
      admit: (count) =>
        limiter.admit(projectId, { events: count }, { retry: { requests: 1, batchBytes: chargedBytes } }),
      mayTransfer: true,
    })
  const result = await wait(record?.span ? record.span.runChild('submit batch', submit) : submit())
  const { accepted, duplicates, rejected } = result
  if (record) record.outcome = { accepted, duplicates, rejected: rejected.length }
  return jsonResponse<Body<typeof BatchResult>>(202, result)
}
