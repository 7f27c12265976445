import { chunkBytesMax, type EmbeddedIngest, type Ingest, IngestError, type PublishOutcome } from '@ingest/core'
import type { EdgeRequest } from './http/request.ts'
import { type Answer, jsonAnswer, newRequestId, problemAnswer, type Reply, statusByCode } from './http/response.ts'
import { batchPlaces, createPlaces, downloadPlaces, uploadPlaces, waitPlaces } from './limits/concurrency.ts'
import { createWaits, type Waits } from './limits/long-polls.ts'
import { createRateLimiter, type RateLimits } from './limits/rate-limiter.ts'
import { createSpareMemory } from './limits/spare-memory.ts'
import { errorsToConsole, type Log } from './log.ts'
import { answerEvents } from './routes/get-events.ts'
import { answerChunk, answerContent } from './routes/get-map-content.ts'
import { answerMaps } from './routes/get-maps.ts'
import { answerBuilds, answerStats } from './routes/get-stats.ts'
import { type BatchContext, receiveBatch } from './routes/post-batch.ts'
import { createChunkReceiver } from './routes/put-chunks.ts'
import { createPublicationReceiver, publicationBytesMaxDefault } from './routes/put-map.ts'
import { type ChargeRead, type ReadContext, receiveRead } from './routes/read.ts'
import type { UploadContext } from './routes/upload.ts'

export interface HandlerOptions {
  /** Limits each project; `{}` for the usual limits. Nothing is limited without. */
  rateLimits?: RateLimits
  /** Told of what went wrong here, never of what a sender did wrong. Errors go to the console without. */
  log?: Log
  /** The largest body of a publication, in bytes; 1,048,576 without. */
  publicationBytesMax?: number
  /**
   * Aborted when the server is about to stop: from then on all under /v1 is answered with 503, the server is not ready,
   * and connections are closed. Who waits for events is answered at once.
   */
  draining?: AbortSignal
}

/** Knows every route; the same whichever edge the requests come in by. */
export interface Router {
  hasRoute(path: string): boolean
  /** Never rejects. */
  answer(request: EdgeRequest): Promise<Answer>
}

/** How much memory is kept for uploads while there are none: for as many chunks as one client sends at once. */
const spareUploadsMax = 8

type Respond = (request: EdgeRequest, headers: Record<string, string>, requestId: string) => Promise<Answer>

/** By method; HEAD is answered as GET. */
type Route = Readonly<Record<string, Respond>>

/** @throws {IngestError} `invalid-argument` for limits that cannot be. */
export function createRouter(ingest: EmbeddedIngest, options: HandlerOptions = {}): Router {
  const { rateLimits, log = errorsToConsole, draining } = options
  const isDraining = () => draining?.aborted ?? false
  const limiter = rateLimits && createRateLimiter(rateLimits)
  const batches = { ingest, limiter, log, places: createPlaces(batchPlaces) }
  const waits = createWaits(draining)
  const uploads = {
    ingest,
    limiter,
    log,
    places: createPlaces(uploadPlaces),
    spare: createSpareMemory(chunkBytesMax, spareUploadsMax),
    waits,
    endReason: () => (isDraining() ? aboutToStop() : leftEarly()),
  }
  const reads = { ingest, limiter, log, places: createPlaces(downloadPlaces) }
  const waiting = { ingest, limiter, log, places: createPlaces(waitPlaces) }
  const bytesMax = options.publicationBytesMax ?? publicationBytesMaxDefault
  const open =
    (respond: Respond): Respond =>
    (...exchange) => {
      if (isDraining()) throw aboutToStop()
      return respond(...exchange)
    }
  const routes = new Map<string, Route>([
    ['/v1/events/batch', { POST: open(respondToBatches(batches)) }],
    ['/v1/events', { GET: open(respondToEvents(reads, waiting, waits)) }],
    ['/v1/maps', { GET: open(respondToReads(reads, answerMaps)), PUT: open(respondToPublications(uploads, bytesMax)) }],
    ['/v1/maps/chunks', { GET: open(respondToReads(reads, answerChunk)), PUT: open(respondToChunks(uploads)) }],
    ['/v1/maps/content', { GET: open(respondToReads(reads, answerContent)) }],
    ['/v1/stats', { GET: open(respondToReads(reads, answerStats)) }],
    ['/v1/builds', { GET: open(respondToReads(reads, answerBuilds)) }],
    ['/livez', { GET: respondAlive }],
    ['/readyz', { GET: respondReady(ingest, isDraining) }],
  ])

  async function answer(request: EdgeRequest): Promise<Answer> {
    const requestId = newRequestId()
    const headers: Record<string, string> = {}
    let answer: Answer
    try {
      answer = await findRoute(routes, request, headers)(request, headers, requestId)
    } catch (error) {
      answer = problemAnswer(toRefusal(error, requestId, log), requestId)
    }
    if (isDraining()) headers.Connection = 'close'
    Object.assign(answer.headers, headers)
    return answer
  }

  return { hasRoute: (path) => routes.has(path), answer }
}

function findRoute(routes: Map<string, Route>, request: EdgeRequest, headers: Record<string, string>): Respond {
  const route = routes.get(request.path)
  if (!route) throw new IngestError('not-found', 'There is nothing at this path.')
  const method = request.method === 'HEAD' ? 'GET' : request.method
  if (Object.hasOwn(route, method)) return route[method] as Respond
  headers.Allow = Object.keys(route)
    .flatMap((each) => (each === 'GET' ? ['GET', 'HEAD'] : [each]))
    .join(', ')
  throw new IngestError('method-not-allowed', `This path takes ${headers.Allow}.`)
}

function respondToBatches(context: BatchContext): Respond {
  return async (request, headers, requestId) =>
    jsonAnswer(202, await receiveBatch(context, request, headers), requestId)
}

function respondToPublications(context: UploadContext, bytesMax: number): Respond {
  const receive = createPublicationReceiver(context, bytesMax)
  return async (request, headers, requestId) => {
    const published = await receive(request, headers)
    return jsonAnswer(statusByOutcome[published.outcome], published, requestId)
  }
}

function respondToChunks(context: UploadContext): Respond {
  const receive = createChunkReceiver(context)
  return async (request, headers, requestId) => {
    const result = await receive(request, headers)
    return jsonAnswer('outcome' in result && result.outcome === 'stored' ? 201 : 200, result, requestId)
  }
}

const statusByOutcome: Readonly<Record<PublishOutcome, number>> = {
  created: 201,
  replaced: 200,
  unchanged: 200,
  incomplete: 202,
}

/** What reads for a project, and the headers of the answer, whatever it will be. */
type ReplyTo = (
  ingest: Ingest,
  request: EdgeRequest,
  headers: Record<string, string>,
  charge: ChargeRead,
) => Promise<Reply>

function respondToReads(context: ReadContext, replyTo: ReplyTo): Respond {
  const { ingest, log } = context
  return async (request, headers, requestId) => {
    const answer = await receiveRead(
      context,
      (projectId, charge) => replyTo(ingest.project(projectId), request, headers, charge),
      request,
      headers,
      (error) => void toRefusal(error, requestId, log),
    )
    answer.headers = { 'Cache-Control': 'no-store', 'X-Request-Id': requestId, ...answer.headers }
    return answer
  }
}

/** Who waits holds next to nothing, for long, and has places of their own. */
function respondToEvents(reads: ReadContext, waiting: ReadContext, waits: Waits): Respond {
  const replyTo: ReplyTo = (ingest, request, _headers, charge) => answerEvents({ waits, ingest, charge }, request)
  const [read, wait] = [respondToReads(reads, replyTo), respondToReads(waiting, replyTo)]
  return (request, ...exchange) => {
    const respond = new URLSearchParams(request.query).has('wait') ? wait : read
    return respond(request, ...exchange)
  }
}

const respondAlive: Respond = async (_request, _headers, requestId) => jsonAnswer(200, { status: 'alive' }, requestId)

function respondReady(ingest: EmbeddedIngest, isDraining: () => boolean): Respond {
  return async (_request, _headers, requestId) => {
    if (isDraining()) throw aboutToStop()
    try {
      await ingest.checkReady()
    } catch (error) {
      if (error instanceof IngestError && statusByCode[error.code] === 503) throw error
      throw new IngestError('store-failed', 'The store cannot take batches now.', { cause: error })
    }
    return jsonAnswer(200, { status: 'ready' }, requestId)
  }
}

function aboutToStop(): IngestError {
  return new IngestError('draining', 'This server is about to stop: try again, and you will reach another.', {
    retryAfterSeconds: 1,
  })
}

/** Only a client that has half-closed the connection still receives it. */
function leftEarly(): IngestError {
  return new IngestError('request-timeout', 'The connection was closed before the map was verified: send it again.')
}

/** What to answer; what went wrong on this side is reported first. */
function toRefusal(error: unknown, requestId: string, log: Log | undefined): IngestError {
  if (!(error instanceof IngestError)) {
    log?.error({ err: error, requestId }, 'request failed')
    return new IngestError('internal-error', 'Something went wrong here: try again later.')
  }
  const isOurFault = statusByCode[error.code] === 500 || error.code === 'disk-full' || error.code === 'store-failed'
  if (isOurFault) log?.error({ err: error, requestId }, 'request refused')
  return error
}
