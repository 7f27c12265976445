import { type EventLine, readEventLines } from './event-lines.ts'
import { checkResponse, parseBody } from './ingest-response.ts'
import { RequestError } from './request-error.ts'
import type { Session } from './session.ts'

/** Undefined values are omitted. */
export type Query = Readonly<Record<string, string | number | undefined>>

interface RequestOptions {
  query?: Query
  signal?: AbortSignal | undefined
  /**
   * Timeout of the response, in milliseconds: of its start with `fetch`, of the whole with the other methods. Default:
   * 30 seconds.
   */
  timeoutMs?: number
}

/** The public API of the server below which the page is served, for one session. */
export interface Api {
  readonly session: Session
  readonly observer: ApiObserver
  /**
   * Resolves with a 2xx response with a body of this media type.
   *
   * @throws {RequestError}
   * @throws the reason of the signal
   */
  fetch(path: string, mediaType: string, options?: RequestOptions): Promise<Response>
  /** The response's body, parsed as JSON. */
  json<Body>(path: string, options?: RequestOptions): Promise<Body>
  /** The lines of one response of `GET /v1/events`. */
  events(options?: RequestOptions): Promise<EventLine[]>
}

/** Notified of the outcome of each request of an Api. */
interface ApiObserver {
  /** Called after each response of an Ingest server, including one that refuses the request. */
  onResponse?(): void
  onError?(error: RequestError): void
}

const timeoutDefaultMs = 30_000

export const eventsType = 'application/x-ndjson'

/** The address of a path of the API: the page and its worker are served from `console/`, next to `v1/`. */
export function apiUrl(path: string): string {
  return new URL(`../${path}`, globalThis.location?.href ?? 'http://localhost/console/').href
}

interface Reading<Result> {
  mediaType: string
  read(response: Response): Result | Promise<Result>
  /** Includes `read`: detects connections that break silently. */
  timeout?: AbortSignal
}

export function createApi(session: Session, observer: ApiObserver = {}): Api {
  const { onResponse, onError } = observer
  async function request<Result>(
    path: string,
    options: RequestOptions,
    { mediaType, read, timeout }: Reading<Result>,
  ): Promise<Result> {
    const { signal } = options
    try {
      const either = signal && timeout ? AbortSignal.any([signal, timeout]) : (signal ?? timeout)
      const response = await send(session, path, { ...options, signal: either })
      await checkResponse(response, mediaType)
      const result = await read(response)
      onResponse?.()
      return result
    } catch (error) {
      signal?.throwIfAborted()
      const failure =
        error instanceof RequestError ? error : new RequestError('offline', 'The server does not respond.')
      if (failure.kind !== 'offline' && failure.kind !== 'foreign') onResponse?.()
      onError?.(failure)
      throw failure
    }
  }

  const timeoutOf = ({ timeoutMs = timeoutDefaultMs }: RequestOptions) => AbortSignal.timeout(timeoutMs)

  return {
    session,
    observer,
    fetch: (path, mediaType, options = {}) => request(path, options, { mediaType, read: (response) => response }),
    json: (path, options = {}) =>
      request(path, options, {
        mediaType: 'application/json',
        read: async (response) => parseBody(path, await response.text()),
        timeout: timeoutOf(options),
      }),
    events: (options = {}) =>
      request('v1/events', options, {
        mediaType: eventsType,
        read: (response) => readAllLines(response, options.timeoutMs),
        timeout: timeoutOf(options),
      }),
  }
}

async function readAllLines(response: Response, stallMs?: number): Promise<EventLine[]> {
  const all: EventLine[] = []
  for await (const lines of readEventLines(response, stallMs)) all.push(...lines)
  return all
}

/** Resolves with any response, rejects without a response. */
async function send({ projectId, key }: Session, path: string, options: RequestOptions): Promise<Response> {
  const { query = {}, signal, timeoutMs = timeoutDefaultMs } = options
  const url = new URL(apiUrl(path))
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value))
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), timeoutMs)
  try {
    return await fetch(url, {
      headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key },
      signal: signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal,
      // never send the key to another origin: a redirect counts as the response of another server
      mode: 'same-origin',
      redirect: 'manual',
      credentials: 'omit',
      cache: 'no-store',
    })
  } finally {
    clearTimeout(timer)
  }
}
