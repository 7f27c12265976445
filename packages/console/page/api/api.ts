import { RequestError, toRequestError } from './request-error.ts'
import type { Session } from './session.ts'

/** Undefined values are omitted. */
export type Query = Readonly<Record<string, string | number | undefined>>

export interface RequestOptions {
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
   * Resolves with a 2xx response.
   *
   * @throws {RequestError}
   * @throws the reason of the signal
   */
  fetch(path: string, options?: RequestOptions): Promise<Response>
  /** The response's body, parsed as JSON. */
  json<Body>(path: string, options?: RequestOptions): Promise<Body>
  /**
   * The response's body, parsed by `parse`. If `parse` throws, for example on a proxy's page, that counts as no
   * response.
   */
  body<Body>(path: string, parse: (text: string) => Body, options?: RequestOptions): Promise<Body>
}

/** Notified of the outcome of each request of an Api. */
export interface ApiObserver {
  /** Called after each readable response, including one that refuses the request. */
  onResponse?(): void
  onError?(error: RequestError): void
}

const timeoutDefaultMs = 30_000

/** The root of the API: the page and its worker are served from `console/`, next to `v1/`. */
const root = new URL('../', globalThis.location?.href ?? 'http://localhost/console/')

/** The address of a path of the API, for display. */
export function apiUrl(path: string): string {
  return new URL(path, root).href
}

export function createApi(session: Session, observer: ApiObserver = {}): Api {
  const { onResponse, onError } = observer
  /** `timeout` includes `read`. */
  async function request<Result>(
    path: string,
    options: RequestOptions,
    read: (response: Response) => Result | Promise<Result>,
    timeout?: AbortSignal,
  ): Promise<Result> {
    const { signal } = options
    try {
      const either = signal && timeout ? AbortSignal.any([signal, timeout]) : (signal ?? timeout)
      const response = await send(session, path, { ...options, signal: either })
      if (!response.ok) throw await toRequestError(response)
      const result = await read(response)
      onResponse?.()
      return result
    } catch (error) {
      signal?.throwIfAborted()
      const failure =
        error instanceof RequestError ? error : new RequestError('offline', 'The server does not respond.')
      if (failure.kind !== 'offline') onResponse?.()
      onError?.(failure)
      throw failure
    }
  }

  async function body<Body>(path: string, parse: (text: string) => Body, options: RequestOptions = {}): Promise<Body> {
    // detects connections that break silently
    const timeout = AbortSignal.timeout(options.timeoutMs ?? timeoutDefaultMs)
    return request(path, options, (response) => readAs(parse, response), timeout)
  }

  return {
    session,
    observer,
    fetch: (path, options = {}) => request(path, options, (response) => response),
    json: (path, options) => body(path, JSON.parse, options),
    body,
  }
}

async function readAs<Body>(parse: (text: string) => Body, response: Response): Promise<Body> {
  try {
    return parse(await response.text())
  } catch {
    throw new RequestError('offline', 'The response was interrupted, or is not from an Ingest server.')
  }
}

/** Resolves with any response, rejects without a response. */
async function send({ projectId, key }: Session, path: string, options: RequestOptions): Promise<Response> {
  const { query = {}, signal, timeoutMs = timeoutDefaultMs } = options
  const url = new URL(path, root)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value))
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), timeoutMs)
  try {
    return await fetch(url, {
      headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key },
      signal: signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal,
      // never send the key to another origin
      mode: 'same-origin',
      redirect: 'error',
      credentials: 'omit',
      cache: 'no-store',
    })
  } finally {
    clearTimeout(timer)
  }
}
