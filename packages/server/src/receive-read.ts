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
  }
}

function isMade(body: Reply['body']): body is AsyncIterable<Uint8Array> {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}
