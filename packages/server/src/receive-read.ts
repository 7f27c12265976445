import type { EmbeddedIngest } from '@ingest/core'
import { type Answer, isPieces, type Reply } from './answer.ts'
import { authenticateRequest } from './authenticate-request.ts'
import { beginPieces } from './begin-pieces.ts'
import { checkRepeated } from './body-headers.ts'
import type { EdgeRequest } from './edge-request.ts'
import type { Log } from './log.ts'
import type { Places } from './places.ts'

export interface ReadContext {
  ingest: EmbeddedIngest
  log: Log | undefined
  places: Places
}

/**
 * A request that reads what a project has: checks its headers and begins what `reply` makes of it. Its place is given
 * back with the last of the body; `onBreak` is told when the body fails on the way.
 *
 * @throws {IngestError}
 */
export async function receiveRead(
  context: ReadContext,
  reply: (projectId: string) => Promise<Reply>,
  request: EdgeRequest,
  onBreak: (error: unknown) => void,
): Promise<Answer> {
  const projectId = await authenticateRequest(context, request.headers, 'read')
  const leave = context.places.enter(projectId)
  try {
    checkRepeated(request.headers)
    const { status, headers, body } = await reply(projectId)
    const isMade = typeof body !== 'string' && !(body instanceof Uint8Array)
    // its length, if it is known, is in the headers already
    if (isMade && request.method === 'HEAD') return whole(status, headers, '', leave)
    const begun = isMade ? await beginPieces(body, { onBreak, onEnd: leave }) : body
    if (isPieces(begun)) return { status, headers, body: begun }
    if (status !== 304) headers['Content-Length'] = String(Buffer.byteLength(begun))
    return whole(status, headers, begun, leave)
  } catch (error) {
    leave()
    throw error
  }
}

function whole(status: number, headers: Record<string, string>, body: string | Uint8Array, leave: () => void): Answer {
  leave()
  return { status, headers, body }
}
