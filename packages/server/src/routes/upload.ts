import type { EmbeddedIngest, IngestError, VerificationOptions } from '@ingest/core'
import { authenticateRequest } from '../authenticate.ts'
import { type BodyKind, checkBodyHeaders } from '../http/body-headers.ts'
import type { EdgeRequest } from '../http/request.ts'
import type { Places } from '../limits/concurrency.ts'
import type { Waits } from '../limits/long-polls.ts'
import type { RateLimiter } from '../limits/rate-limiter.ts'
import type { SpareMemory } from '../limits/spare-memory.ts'
import type { Log } from '../log.ts'

export interface UploadContext {
  ingest: EmbeddedIngest
  limiter: RateLimiter | undefined
  log: Log | undefined
  places: Places
  /** For bodies. */
  spare: SpareMemory
  waits: Waits
  /** The reason with which a verification ends when its request is gone or the server drains. */
  endReason: () => IngestError
}

/** What a route does with a body of one media type. */
export interface UploadKind<Result> extends BodyKind {
  /**
   * Reads what the request says besides its body, before that is read; returns what is to become of the body, which is
   * somebody else's as soon as that has settled.
   */
  prepare(request: EdgeRequest): (projectId: string, body: Uint8Array, options: VerificationOptions) => Promise<Result>
}

/**
 * Something for maps: checks what can be known from the headers, in the order of the contract, and reads the body.
 * `headers` are those of the answer, whatever it will be.
 *
 * @throws {IngestError}
 */
export async function receiveUpload<Result>(
  context: UploadContext,
  kinds: ReadonlyMap<string, UploadKind<Result>>,
  request: EdgeRequest,
  headers: Record<string, string>,
): Promise<Result> {
  const projectId = await authenticateRequest(context, request.headers, 'maps:write')
  const leave = context.places.enter(projectId)
  const memory = context.spare.take()
  try {
    const { kind, gzip } = checkBodyHeaders(request.headers, kinds)
    const take = kind.prepare(request)
    const read = () => request.readBody(gzip, kind.limit, memory)
    try {
      const { body, taken } = await readLimited(read, projectId, context.limiter, request)
      const admit = (bytes: number) => context.limiter?.takeMapBytes(projectId, bytes, taken)
      return await whileAwaited(context, request, (signal) => take(projectId, body, { signal, admit }))
    } finally {
      if (context.limiter) Object.assign(headers, context.limiter.mapHeaders(projectId))
    }
  } finally {
    context.spare.giveBack(memory)
    leave()
  }
}

/**
 * Reads a body within the limit of the project's bytes, which counts what was announced or what came, if that is more.
 */
async function readLimited(
  read: () => Promise<Uint8Array>,
  projectId: string,
  limiter: RateLimiter | undefined,
  request: EdgeRequest,
): Promise<{ body: Uint8Array; taken: number }> {
  if (!limiter) return { body: await read(), taken: 0 }
  const announced = Math.max(1, Number(request.headers.values['content-length'] ?? 0))
  limiter.takeMapBytes(projectId, announced)
  const body = await read()
  const taken = Math.max(announced, body.length)
  limiter.oweMapBytes(projectId, taken - announced)
  return { body, taken }
}

/** Runs work with a signal that is aborted when its request is gone, or the server is about to stop. */
async function whileAwaited<T>(
  { waits, endReason }: UploadContext,
  request: EdgeRequest,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController()
  const stopWatching = waits.begin(request, () => ending.abort(endReason()))
  try {
    return await work(ending.signal)
  } finally {
    stopWatching()
  }
}
