import type { BatchResult } from '@ingest/core'
import { batchBytesMax, batchTooLarge, type EmbeddedIngest, IngestError, isProjectId } from '@ingest/core'
import type { RateLimiter } from './create-rate-limiter.ts'
import type { Log } from './log.ts'
import type { Places } from './places.ts'
import type { RequestHeaders } from './request-headers.ts'

/** A request, whichever edge it came in by. */
export interface EdgeRequest {
  method: string
  /** Without prefix, query and fragment. */
  path: string
  headers: RequestHeaders
  /**
   * The body, inflated if `gzip`. Called once at most, when everything that can be decided without it is.
   *
   * @throws {IngestError} `batch-too-large` over 262,144 bytes, before or after inflating; `malformed-body` for broken
   *   gzip; `request-timeout` when the sender left before the end; `internal-error` when somebody else has read it.
   */
  readBody(gzip: boolean): Promise<Uint8Array>
}

export interface BatchContext {
  ingest: EmbeddedIngest
  limiter: RateLimiter | undefined
  log: Log | undefined
  places: Places
}

const noOptions = {}

/**
 * One batch: checks what can be known from the headers, in the order of the contract, reads the body and submits it.
 * `headers` are those of the answer, whatever it will be: the rate limits go in there, for authenticated senders only.
 *
 * @throws {IngestError}
 */
export async function receiveBatch(
  context: BatchContext,
  request: EdgeRequest,
  headers: Record<string, string>,
): Promise<BatchResult> {
  const projectId = await authenticate(context, request.headers)
  const leave = context.places.enter(projectId)
  try {
    return await receiveFrom(projectId, context, request, headers)
  } finally {
    leave()
  }
}

async function receiveFrom(
  projectId: string,
  { ingest, limiter }: BatchContext,
  request: EdgeRequest,
  headers: Record<string, string>,
): Promise<BatchResult> {
  const gzip = checkHeaders(request.headers)
  if (!limiter) return ingest.submitBatch(projectId, await request.readBody(gzip), noOptions)
  try {
    limiter.takeRequest(projectId)
    const body = await request.readBody(gzip)
    return await ingest.submitBatch(projectId, body, { admit: (count) => limiter.takeEvents(projectId, count) })
  } finally {
    Object.assign(headers, limiter.headers(projectId))
  }
}

async function authenticate({ ingest, log }: BatchContext, { values, repeated }: RequestHeaders): Promise<string> {
  const { 'x-project-id': projectId, 'x-ingestion-key': key } = values
  const isRepeated = repeated.includes('x-project-id') || repeated.includes('x-ingestion-key')
  if (isRepeated || !isProjectId(projectId) || key === undefined || key === '') throw unauthorized()
  let isAuthentic: boolean
  try {
    isAuthentic = await ingest.authenticate({ projectId, key, scope: 'events:write' })
  } catch (error) {
    // a 401 would make a game server keep silent for minutes
    log?.error({ err: error, projectId }, 'keys cannot be checked')
    throw new IngestError('key-store-unavailable', 'Keys cannot be checked now: try again later.')
  }
  if (isAuthentic !== true) throw unauthorized()
  return projectId
}

/** The same for every cause, so that nothing is learnt from it. */
function unauthorized(): IngestError {
  return new IngestError('unauthorized', 'X-Project-Id and X-Ingestion-Key must be those of an active key.')
}

/** Whether the body is gzip. */
function checkHeaders({ values, repeated }: RequestHeaders): boolean {
  if (repeated.length > 0) {
    throw new IngestError('repeated-header', `The header ${repeated[0]} must not come more than once.`)
  }
  checkMediaType(values['content-type'])
  const gzip = isGzipCoding(values['content-encoding'])
  checkTransferCoding(values['transfer-encoding'])
  checkLength(values['content-length'])
  return gzip
}

function checkMediaType(value: string | undefined): void {
  if (value === 'application/json') return
  if (value?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json') return
  throw new IngestError('unsupported-media-type', 'The body must be sent with Content-Type: application/json.')
}

function isGzipCoding(value = ''): boolean {
  const coding = value.trim().toLowerCase()
  if (coding === '' || coding === 'identity') return false
  if (coding === 'gzip' || coding === 'x-gzip') return true
  throw new IngestError('unsupported-coding', 'The body may be sent with Content-Encoding: gzip, or without any.')
}

/** Node takes `chunked` off; any other coding would still be on the body. */
function checkTransferCoding(value: string | undefined): void {
  if (value === undefined || value.trim().toLowerCase() === 'chunked') return
  throw new IngestError('unsupported-coding', 'The body may be sent with Transfer-Encoding: chunked, or without any.')
}

function checkLength(value: string | undefined): void {
  if (value === undefined) return
  if (!/^\d+$/.test(value)) throw new IngestError('malformed-request', 'Content-Length is a number of bytes.')
  if (Number(value) > batchBytesMax) throw batchTooLarge(Number(value))
}
