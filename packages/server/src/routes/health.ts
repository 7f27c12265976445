import { type EmbeddedIngest, errorTable, IngestError } from '@ingest/core'
import { serverDraining } from '../http/cancellation.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { Body, Health } from './bodies.ts'

export interface HealthContext {
  ingest: EmbeddedIngest
  isDraining: boolean
}

/** `GET /livez`: 200 while the process runs. */
export async function getLivez(): Promise<HttpResponse> {
  return jsonResponse<Body<typeof Health>>(200, { status: 'alive' })
}

/**
 * `GET /readyz`: 200 while a batch could be stored.
 *
 * @throws {IngestError} `draining`, `store-failed`, and errors of the store that are a 503
 */
export async function getReadyz({ ingest, isDraining }: HealthContext): Promise<HttpResponse> {
  if (isDraining) throw serverDraining()
  try {
    await ingest.checkReady()
  } catch (error) {
    if (error instanceof IngestError && errorTable[error.code].status === 503) throw error
    throw new IngestError('store-failed', 'The store cannot store batches now.', { cause: error })
  }
  return jsonResponse<Body<typeof Health>>(200, { status: 'ready' })
}
