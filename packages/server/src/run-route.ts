import type { EmbeddedIngest } from '@ingest/core'
import { keyIdOf } from '@ingest/core/internal'
import { authenticateRequest, keyOf } from './authenticate.ts'
import { type Cancellation, createWait } from './http/cancellation.ts'
import { checkRepeated, type HttpRequest } from './http/request.ts'
import { type HttpResponse, isStream } from './http/response.ts'
import { type StreamOptions, startStream } from './http/stream.ts'
import type { ConcurrencyLimit, ConcurrencyLimitName, Slots } from './limits/concurrency.ts'
import type { RateLimiter } from './limits/rate-limiter.ts'
import { readBytesMin } from './limits/rate-limits.ts'
import { requestBytes, type TurnBudget } from './limits/turn-budget.ts'
import type { LogError } from './log.ts'
import type { ObservedRequest } from './requests/observe-requests.ts'
import type { Call } from './router.ts'
import type { ProjectRoute, RouteContext, RouteResponse, UploadBody } from './routes/route.ts'

/** The services that all requests share. */
export interface Services {
  ingest: EmbeddedIngest
  logError: LogError
  limiter: RateLimiter
  concurrency: Readonly<Record<ConcurrencyLimitName, ConcurrencyLimit>>
  /** For requests, and for bytes of uploads. */
  turnBudgets: Readonly<Record<'requests' | 'uploadBytes', TurnBudget>>
  cancellation: Cancellation
}

/**
 * Authenticates a request, takes a slot, runs the handler and starts the body of its response. The slot is released at
 * the end of the body. The rate limits are added to the headers once the slot is taken, even if this throws.
 *
 * @throws {IngestError}
 */
export async function runRoute(
  { scope, concurrency, budget, operation, handle }: ProjectRoute,
  services: Services,
  call: Call,
): Promise<HttpResponse> {
  const { limiter, cancellation } = services
  const { request, params, headers, record, onError } = call
  if (record?.isLogged) setKeyId(record, request)
  const wait = createWait()
  const { projectId, keyId } = await authenticateRequest(services, request.headers, scope, wait)
  call.isAuthenticated = true
  const turn = services.turnBudgets.requests(projectId, 1)
  if (turn) await turn
  if (record) {
    record.projectId = projectId
    record.budget = budget
    record.authenticatedAt = performance.now()
  }
  const limit = typeof concurrency === 'string' ? concurrency : concurrency(request)
  if (record) record.isLongPoll = limit === 'longPolls'
  const held = [services.concurrency[limit].take(projectId)]
  const release = () => {
    for (const slots of held) slots.release()
  }
  try {
    checkRepeated(request.headers)
    if (budget === 'reads') await limiter.admit(projectId, { readRequests: 1, readBytes: readBytesMin })
    // a batch is stored in one step that cannot be cancelled
    const ingest = services.ingest.project(projectId, budget === 'batches' ? {} : { signal: request.signal() })
    const onCancel: RouteContext['onCancel'] = (cancel) => cancellation.watch(request, cancel)
    const upload = budget === 'maps' ? holdUpload(services, projectId, held) : undefined
    const beginBatch = (bytes: number) => services.turnBudgets.requests(projectId, Math.floor(bytes / requestBytes))
    const context = { request, params, ingest, keyId, limiter, headers, upload, beginBatch, wait, record, onCancel }
    const response = await (operation.body ? handle(context) : wait(handle(context)))
    if (record) record.handledAt = performance.now()
    // for HEAD, only a stream saves work
    const isRead = request.method !== 'HEAD' || !isStream(response.body)
    if (budget === 'reads' && isRead) await limiter.charge(projectId, { readBytes: knownLength(response) })
    if (isStream(response.body)) return await startBody(response, response.body, request, { onError, onEnd: release })
    release()
    return withLength(response, response.body)
  } catch (error) {
    release()
    throw error
  } finally {
    const limits = limiter.headers(projectId, budget)
    Object.assign(headers, limits instanceof Promise ? await limits : limits)
  }
}

/** Adds the slots of an upload's body to `held`. */
function holdUpload({ turnBudgets, concurrency }: Services, projectId: string, held: Slots[]): UploadBody {
  const bytesHeld = concurrency.uploadBytes.take(projectId, 0)
  held.push(bytesHeld)
  return {
    receive(bytes) {
      bytesHeld.add(bytes)
      return turnBudgets.uploadBytes(projectId, bytes)
    },
    complete: () => void held.push(concurrency.storedUploads.take(projectId)),
  }
}

function withLength(response: RouteResponse, body: string | Uint8Array): HttpResponse {
  if (response.status !== 304) response.headers['Content-Length'] ??= String(Buffer.byteLength(body))
  return { ...response, body }
}

/** Starts the body of a response. A response to HEAD has none. */
async function startBody(
  response: RouteResponse,
  source: AsyncIterable<Uint8Array>,
  { method }: HttpRequest,
  options: StreamOptions,
): Promise<HttpResponse> {
  const body = await startStream(source, options)
  if (!isStream(body)) return withLength(response, body)
  if (method !== 'HEAD') return { ...response, body }
  await body.return()
  return { ...response, body: '' }
}

/** Records the id of the key, even of a refused one, to help find its sender. */
function setKeyId(record: ObservedRequest, { headers: { values } }: HttpRequest): void {
  const keyId = keyIdOf(keyOf(values) ?? '')
  if (keyId !== undefined) record.keyId = keyId
}

/** The length of a body in bytes; 0 for a stream of unknown length. */
function knownLength({ headers, body }: RouteResponse): number {
  return isStream(body) ? Number(headers['Content-Length'] ?? 0) : Buffer.byteLength(body)
}
