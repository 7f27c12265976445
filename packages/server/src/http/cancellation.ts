import { IngestError } from '@ingest/core'
import type { HttpRequest } from './request.ts'

/** Cancels long requests when their client disconnects or the server drains. */
export interface Cancellation {
  /**
   * Calls `cancel` when the client of the request disconnects or the server starts to drain; at once if either has
   * happened. Returns a function that stops watching.
   */
  watch(request: HttpRequest, cancel: (reason: IngestError) => void): () => void
}

/** @param draining aborted when the server starts to drain */
export function createCancellation(draining: AbortSignal | undefined): Cancellation {
  // one listener for all requests: Node warns of a leak above ten listeners of one signal
  const watched = new Set<() => void>()
  draining?.addEventListener('abort', () => {
    for (const drain of watched) drain()
  })
  return {
    watch(request, cancel) {
      const signal = request.signal()
      const drain = () => cancel(serverDraining())
      const leave = () => cancel(signal.reason)
      if (draining?.aborted) drain()
      if (signal.aborted) leave()
      watched.add(drain)
      signal.addEventListener('abort', leave)
      return () => {
        watched.delete(drain)
        signal.removeEventListener('abort', leave)
      }
    },
  }
}

export function serverDraining(): IngestError {
  return new IngestError('draining', 'This server is shutting down: try again later.', {
    retryAfterSeconds: 1,
  })
}

/** Only a client with a half-closed connection receives this error. */
export function clientDisconnected(): IngestError {
  return new IngestError('request-timeout', 'The connection was closed before the request was done: send it again.')
}

/**
 * How long a request may wait for its key and the store in total, in milliseconds: for a PostgreSQL connection and a
 * statement. This leaves a busy process, as in a failover, 3 s to respond within 15 s.
 */
const waitMsMax = 12_000

/**
 * Waits for one step of a request, until all of its steps have taken {@link waitMsMax}.
 *
 * @throws {IngestError} `store-unavailable`; the step goes on
 */
export type Wait = <T>(step: T | Promise<T>) => Promise<T>

/** Creates the waits of one request. */
export function createWait(): Wait {
  let leftMs = waitMsMax
  return <T>(step: T | Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      const startedAt = performance.now()
      const timer = setTimeout(() => {
        reject(new IngestError('store-unavailable', 'The store did not respond in time.', { retryAfterSeconds: 1 }))
      }, leftMs)
      const after =
        <Value>(settle: (value: Value) => void) =>
        (value: Value) => {
          clearTimeout(timer)
          leftMs -= performance.now() - startedAt
          settle(value)
        }
      Promise.resolve(step).then(after(resolve), after(reject))
    })
}
