import { type EmbeddedIngest, IngestError } from '@ingest/core'
import { type Answer, jsonAnswer, newRequestId } from './answer.ts'
import { createRateLimiter, type RateLimits } from './create-rate-limiter.ts'
import { errorsToConsole, type Log } from './log.ts'
import { createPlaces } from './places.ts'
import { problemAnswer } from './problem-answer.ts'
import { type BatchContext, type EdgeRequest, receiveBatch } from './receive-batch.ts'
import { statusByCode } from './status-by-code.ts'

export interface HandlerOptions {
  /** Limits each project; `{}` for the usual limits. Nothing is limited without. */
  rateLimits?: RateLimits
  /** Told of what went wrong here, never of what a sender did wrong. Errors go to the console without. */
  log?: Log
  /** While it returns true batches are answered with 503, the server is not ready, and connections are closed. */
  isDraining?: () => boolean
}

/** Knows every route; the same whichever edge the requests come in by. */
export interface Router {
  hasRoute(path: string): boolean
  /** Never rejects. */
  answer(request: EdgeRequest): Promise<Answer>
}

type Respond = (request: EdgeRequest, headers: Record<string, string>, requestId: string) => Promise<Answer>

interface Route {
  methods: readonly string[]
  respond: Respond
}

/** @throws {IngestError} `invalid-argument` for rate limits that cannot be. */
export function createRouter(ingest: EmbeddedIngest, options: HandlerOptions = {}): Router {
  const { rateLimits, log = errorsToConsole, isDraining = () => false } = options
  const limiter = rateLimits && createRateLimiter(rateLimits)
  const routes = new Map<string, Route>([
    [
      '/v1/events/batch',
      { methods: ['POST'], respond: respondToBatches({ ingest, limiter, log, places: createPlaces() }, isDraining) },
    ],
    ['/livez', { methods: ['GET', 'HEAD'], respond: respondAlive }],
    ['/readyz', { methods: ['GET', 'HEAD'], respond: respondReady(ingest, isDraining) }],
  ])

  async function answer(request: EdgeRequest): Promise<Answer> {
    const requestId = newRequestId()
    const headers: Record<string, string> = {}
    let answer: Answer
    try {
      answer = await findRoute(routes, request, headers).respond(request, headers, requestId)
    } catch (error) {
      answer = problemAnswer(toRefusal(error, requestId, log), requestId)
    }
    if (isDraining()) headers.Connection = 'close'
    Object.assign(answer.headers, headers)
    return answer
  }

  return { hasRoute: (path) => routes.has(path), answer }
}

function findRoute(routes: Map<string, Route>, request: EdgeRequest, headers: Record<string, string>): Route {
  const route = routes.get(request.path)
  if (!route) throw new IngestError('not-found', 'There is nothing at this path.')
  if (route.methods.includes(request.method)) return route
  headers.Allow = route.methods.join(', ')
  throw new IngestError('method-not-allowed', `This path takes ${headers.Allow}.`)
}

function respondToBatches(context: BatchContext, isDraining: () => boolean): Respond {
  return async (request, headers, requestId) => {
    if (isDraining()) throw draining()
    return jsonAnswer(202, await receiveBatch(context, request, headers), requestId)
  }
}

const respondAlive: Respond = async (_request, _headers, requestId) => jsonAnswer(200, { status: 'alive' }, requestId)

function respondReady(ingest: EmbeddedIngest, isDraining: () => boolean): Respond {
  return async (_request, _headers, requestId) => {
    if (isDraining()) throw draining()
    try {
      await ingest.check()
    } catch (error) {
      if (error instanceof IngestError && statusByCode[error.code] === 503) throw error
      throw new IngestError('store-failed', 'The store cannot take batches now.', { cause: error })
    }
    return jsonAnswer(200, { status: 'ready' }, requestId)
  }
}

function draining(): IngestError {
  return new IngestError('draining', 'This server is about to stop: try again, and you will reach another.', {
    retryAfterSeconds: 1,
  })
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
