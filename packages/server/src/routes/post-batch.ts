import { batchBytesMax, batchEventsMax } from '@ingest/core'
import { batchTooLarge } from '@ingest/core/internal'
import { Batch, BatchResult, type Body } from '@ingest/core/wire'
import { checkBodyHeaders, readChargedBody } from '../http/body.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { comma, json } from './operation.ts'
import type { ProjectRoute, RouteContext } from './route.ts'

const limit = { bytesMax: batchBytesMax, tooLarge: batchTooLarge }
const kinds = new Map([['application/json', { limit }]])

export const postBatch: ProjectRoute = {
  method: 'POST',
  path: '/v1/events/batch',
  scope: 'events:write',
  concurrency: 'batches',
  budget: 'batches',
  operation: {
    operationId: 'sendBatch',
    tag: 'events',
    summary: 'store a batch of events',
    description: `At most ${batchEventsMax} events and ${comma(batchBytesMax)} bytes, also after decompression. Other members and a byte order mark are ignored; the query is ignored. Idempotent: retry the same bytes until a 202.`,
    body: json(Batch, {
      events: [{ projectId: 'demo', eventId: 'e-1', type: 'round.start', buildId: '2026.11.20' }],
    }),
    responses: {
      202: {
        description: 'Every accepted event is durable. Invalid events do not fail the batch, even if all are rejected.',
        content: json(BatchResult, {
          accepted: 0,
          duplicates: 1,
          rejected: [
            {
              index: 1,
              eventId: 'e-3',
              issues: [{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }],
            },
          ],
        }),
      },
    },
    codes: ['malformed-body', 'invalid-envelope', 'batch-too-large', 'too-many-events'],
  },
  handle: acceptBatch,
}

async function acceptBatch(context: RouteContext): Promise<HttpResponse> {
  const { request, ingest, keyId, limiter, beginBatch, record, wait } = context
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
  if (record) {
    record.bodyAt = performance.now()
    record.receivedBytes = body.length
  }
  const turn = beginBatch(body.length)
  if (turn) await turn
  const submit = () =>
    ingest.submitBatch(body, {
      admit: (count) =>
        limiter.admit(projectId, { events: count }, { retry: { requests: 1, batchBytes: chargedBytes } }),
      mayTransfer: true,
      keyId,
    })
  const result = await wait(record?.span ? record.span.runChild('submit batch', submit) : submit())
  const { accepted, duplicates, rejected } = result
  if (record) record.outcome = { accepted, duplicates, rejected: rejected.length }
  return jsonResponse<Body<typeof BatchResult>>(202, result)
}
