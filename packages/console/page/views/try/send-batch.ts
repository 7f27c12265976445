import { send } from '../../api/api.ts'
import type { Session } from '../../api/session.ts'
import type { BatchResponse } from './explain-response.ts'

export const batchPath = 'v1/events/batch'

/**
 * Sends a batch and returns the response, whatever its status: a refusal does not sign the page out. Rejects if no
 * response comes.
 */
export async function sendBatch(session: Session, body: string): Promise<BatchResponse> {
  const sentAt = performance.now()
  const response = await send(session, batchPath, { method: 'POST', body })
  const text = await response.text()
  const retryAfter = Number.parseInt(response.headers.get('Retry-After') ?? '', 10)
  return {
    status: response.status,
    statusText: response.statusText,
    body: text,
    requestId: response.headers.get('X-Request-Id'),
    retryAfter: Number.isNaN(retryAfter) ? undefined : retryAfter,
    durationMs: performance.now() - sentAt,
  }
}
