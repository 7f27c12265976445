import { errorTable, IngestError } from '@ingest/core'
import { type Body, Health } from '@ingest/core/wire'
import { serverDraining } from '../http/cancellation.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { json } from './operation.ts'
import type { OpenContext, OpenRoute } from './route.ts'

export const getLivez: OpenRoute = {
  method: 'GET',
  path: '/livez',
  operation: {
    operationId: 'getLivez',
    tag: 'server',
    summary: 'liveness',
    description: '200 while the process responds, also while draining. The query is ignored.',
    responses: { 200: { description: 'The process responds.', content: json(Health, { status: 'alive' }) } },
  },
  handle: reportAlive,
}

async function reportAlive(): Promise<HttpResponse> {
  return jsonResponse<Body<typeof Health>>(200, { status: 'alive' })
}

export const getReadyz: OpenRoute = {
  method: 'GET',
  path: '/readyz',
  operation: {
    operationId: 'getReadyz',
    tag: 'server',
    summary: 'readiness',
    description: '200 if a batch could be stored now; otherwise the 503 that a batch would get. The query is ignored.',
    responses: { 200: { description: 'A batch could be stored.', content: json(Health, { status: 'ready' }) } },
    codes: ['draining', 'disk-full', 'overloaded', 'store-closed', 'store-failed', 'store-locked', 'store-unavailable'],
  },
  handle: reportReady,
}

async function reportReady({ ingest, isDraining }: OpenContext): Promise<HttpResponse> {
  if (isDraining) throw serverDraining()
  try {
    await ingest.checkReady()
  } catch (error) {
    if (error instanceof IngestError && errorTable[error.code].status === 503) throw error
    throw new IngestError('store-failed', 'The store cannot store batches now.', { cause: error })
  }
  return jsonResponse<Body<typeof Health>>(200, { status: 'ready' })
}
