import { RequestError, toRequestError } from './request-error.ts'
import type { Session } from './session.ts'

/** Values that are undefined are left out. */
export type Query = Readonly<Record<string, string | number | undefined>>

export interface RequestOptions {
  query?: Query
  signal?: AbortSignal | undefined
  /** Default: GET. */
  method?: string
  /** Sent as it is, as `application/json`. */
  body?: string
  /** How long the response may take to begin. Default: 30 seconds. */
  timeoutMs?: number
}

/** The public API of the server below which the page is served, for one session. */
export interface Api {
  readonly session: Session
  readonly observer: ApiObserver
  /**
   * A response of 2xx.
   *
   * @throws {RequestError}
   * @throws the reason of the signal
   */
  fetch(path: string, options?: RequestOptions): Promise<Response>
  /** Its body, as JSON. */
  json<Body>(path: string, options?: RequestOptions): Promise<Body>
  /** Its body. The time-out covers the body as well, for long polls over connections that break silently. */
  text(path: string, options?: RequestOptions): Promise<string>
}

/** What an Api says of the requests that it makes. */
export interface ApiObserver {
  /** After each response, also one that refuses the request. */
  onResponse?(): void
  onError?(error: RequestError): void
}

const timeoutDefaultMs = 30_000

/** The root of the API: this page and its worker are served from `console/` beside `v1/`. */
const root = new URL('../', globalThis.location?.href ?? 'http://localhost/console/')

/** The address of a path of the API, for display. */
export function apiUrl(path: string): string {
  return new URL(path, root).href
}

export function createApi(session: Session, observer: ApiObserver = {}): Api {
  const { onResponse, onError } = observer
  async function request(path: string, options: RequestOptions = {}): Promise<Response> {
    try {
      const response = await send(session, path, options)
      if (response.ok) {
        onResponse?.()
        return response
      }
      throw await toRequestError(response)
    } catch (error) {
      options.signal?.throwIfAborted()
      const failure =
        error instanceof RequestError ? error : new RequestError('offline', 'The server does not respond.')
      if (failure.kind !== 'offline') onResponse?.()
      onError?.(failure)
      throw failure
    }
  }

  function failBody(signal: AbortSignal | undefined): never {
    signal?.throwIfAborted()
    const failure = new RequestError('offline', 'The response was interrupted, or is not from an Ingest server.')
    onError?.(failure)
    throw failure
  }

  return {
    session,
    observer,
    fetch: request,
    async text(path, options = {}) {
      const timeout = AbortSignal.timeout(options.timeoutMs ?? timeoutDefaultMs)
      const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout
      try {
        return await (await request(path, { ...options, signal })).text()
      } catch (error) {
        if (error instanceof RequestError) throw error
        return failBody(options.signal)
      }
    },
    async json<Body>(path: string, options?: RequestOptions) {
      const response = await request(path, options)
      try {
        return (await response.json()) as Body
      } catch {
        return failBody(options?.signal)
      }
    },
  }
}

/** One request of a session, whatever the response. Rejects without one. */
export async function send({ projectId, key }: Session, path: string, options: RequestOptions): Promise<Response> {
  const { query = {}, signal, method = 'GET', body, timeoutMs = timeoutDefaultMs } = options
  const url = new URL(path, root)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value))
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), timeoutMs)
  try {
    return await fetch(url, {
      method,
      headers: {
        'X-Project-Id': projectId,
        'X-Ingestion-Key': key,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
      signal: signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal,
      // the key goes to the origin of the page alone
      mode: 'same-origin',
      redirect: 'error',
      credentials: 'omit',
      cache: 'no-store',
    })
  } finally {
    clearTimeout(timer)
  }
}
