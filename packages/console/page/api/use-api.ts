import { createContext } from 'preact'
import { useContext, useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { type Api, createApi } from './api.ts'
import { backoffMs, type Connection, createConnection } from './connection.ts'
import { RequestError } from './request-error.ts'

export const ApiContext = createContext<Api>(createApi({ projectId: '', key: '' }))
export const ConnectionContext = createContext<Connection>(createConnection())

/** The API, as the signed-in project. */
export function useApi(): Api {
  return useContext(ApiContext)
}

export function useConnection(): Connection {
  const connection = useContext(ConnectionContext)
  const [, render] = useState(0)
  useLayoutEffect(() => connection.subscribe(() => render((count) => count + 1)), [connection])
  return connection
}

/** The result of the last attempts. Data is kept while later attempts fail. */
export interface Loaded<Data> {
  data: Data | undefined
  /** Why the last attempt failed; undefined after a success. */
  error: RequestError | undefined
  /** When the data was loaded, in milliseconds since 1970. */
  at: number | undefined
  /** Loads now. */
  reload(): void
}

/**
 * Loads data, and reloads it `intervalMs` after each success; only once if that is undefined. Temporary failures are
 * retried with backoff. Nothing is loaded while the tab is hidden. Starts over when a member of `inputs` changes.
 */
export function useLoaded<Data>(
  load: (api: Api, signal: AbortSignal) => Promise<Data>,
  inputs: readonly unknown[],
  intervalMs?: number | ((data: Data) => number | undefined),
): Loaded<Data> {
  const api = useApi()
  const connection = useContext(ConnectionContext)
  const [round, setRound] = useState(0)
  const [state, setState] = useState<Omit<Loaded<Data>, 'reload'>>(nothing)
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    void repeat(
      async () => {
        const data = await load(api, signal)
        if (!signal.aborted) setState({ data, error: undefined, at: Date.now() })
        return typeof intervalMs === 'function' ? intervalMs(data) : intervalMs
      },
      { connection, signal, onError: (error) => setState((before) => ({ ...before, error })) },
    )
    return () => ending.abort()
  }, [api, connection, round, ...inputs])
  // do not show the result of other inputs
  useEffect(() => () => setState(nothing), [api, ...inputs])
  return { ...state, reload: () => setRound((count) => count + 1) }
}

const nothing = { data: undefined, error: undefined, at: undefined }

interface RepeatContext {
  connection: Connection
  signal: AbortSignal
  onError(error: RequestError): void
}

/**
 * Calls `step` until it returns undefined, or the signal aborts; otherwise it returns the pause before the next call,
 * in milliseconds. Temporary failures are retried with backoff; another failure ends this. Waits while the tab is
 * hidden.
 */
export async function repeat(step: () => Promise<number | undefined>, context: RepeatContext): Promise<void> {
  const { connection, signal, onError } = context
  for (let attempt = 0; !signal.aborted; ) {
    let pauseMs: number | undefined
    try {
      pauseMs = await step()
      attempt = 0
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof RequestError)) {
        onError(new RequestError('refused', `The console failed: ${error}`))
        throw error
      }
      onError(error)
      if (error.isRetried) pauseMs = backoffMs(++attempt, error.retryAfterMs)
    }
    if (pauseMs === undefined) return
    await pause(pauseMs, connection, signal)
  }
}

/**
 * Resolves after a pause, but not while the tab is hidden; at once if the signal aborts or the user requests a retry.
 */
function pause(ms: number, connection: Connection, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let isOver = false
    const timer = setTimeout(() => {
      isOver = true
      endIfVisible()
    }, ms)
    // once one request reaches the server again, the others retry at once
    const unsubscribe = connection.subscribe((isRetry) => (isRetry || connection.lostAt === undefined) && end())
    document.addEventListener('visibilitychange', endIfVisible)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()

    function endIfVisible(): void {
      if (isOver && !document.hidden) end()
    }
    function end(): void {
      clearTimeout(timer)
      unsubscribe()
      document.removeEventListener('visibilitychange', endIfVisible)
      signal.removeEventListener('abort', end)
      resolve()
    }
  })
}
