import type { EmbeddedIngest } from '@ingest/core'
import { authenticateRequest } from '../authenticate.ts'
import { checkRepeated } from '../http/body-headers.ts'
import type { EdgeRequest } from '../http/request.ts'
import { type Answer, isPieces, type Reply } from '../http/response.ts'
import { beginPieces } from '../http/stream.ts'
import type { Places } from '../limits/concurrency.ts'
import type { RateLimiter } from '../limits/rate-limiter.ts'
import type { Log } from '../log.ts'

export interface ReadContext {
  ingest: EmbeddedIngest
  limiter: RateLimiter | undefined
  log: Log | undefined
  places: Places
}

/** Charges the project for bytes that are returned or looked at; false when it should read no more for now. */
export type ChargeRead = (bytes: number) => boolean

/**
 * Receives a request that reads: checks its headers and its rate limit, and begins the response of `reply`. A body of
 * known length is charged when it begins; `reply` charges any other. The slot is released with the end of the body;
 * `onBreak` is called when the body fails. The rate limits go into `limitHeaders`, whatever the response.
 *
 * @throws {IngestError}
 */
export async function receiveRead(
  context: ReadContext,
  reply: (projectId: string, charge: ChargeRead) => Promise<Reply>,
  request: EdgeRequest,
  limitHeaders: Record<string, string>,
  onBreak: (error: unknown) => void,
): Promise<Answer> {
  const projectId = await authenticateRequest(context, request.headers, 'read')
  const { limiter } = context
  const charge: ChargeRead = (bytes) => limiter?.oweReadBytes(projectId, bytes) ?? true
  const leave = context.places.enter(projectId)
  try {
    checkRepeated(request.headers)
    limiter?.takeRead(projectId)
    const { status, headers, body } = await reply(projectId, charge)
    if (request.method !== 'HEAD') charge(lengthOf(body, headers))
    const begun = isMade(body) ? await beginPieces(body, { onBreak, onEnd: leave }) : body
    if (!isPieces(begun)) {
      leave()
      if (status !== 304) headers['Content-Length'] = String(Buffer.byteLength(begun))
    } else if (request.method === 'HEAD') {
      await begun.return()
      return { status, headers, body: '' }
    }
    return { status, headers, body: begun }
  } catch (error) {
    leave()
    throw error
  } finally {
    if (limiter) Object.assign(limitHeaders, limiter.readHeaders(projectId))
  }
}

/** Zero for a body of unknown length. */
function lengthOf(body: Reply['body'], headers: Reply['headers']): number {
  return isMade(body) ? Number(headers['Content-Length'] ?? 0) : Buffer.byteLength(body)
}

function isMade(body: Reply['body']): body is AsyncIterable<Uint8Array> {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}
