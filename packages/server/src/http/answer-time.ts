import { IngestError } from '@ingest/core'

/** What a request may wait for its key and the store in all, in milliseconds: with the rest, it is answered within 15 s. */
const waitMsMax = 14_000

/**
 * Waits for one step of a request, until all of its steps have taken {@link waitMsMax}.
 *
 * @throws {IngestError} `store-unavailable`; the step goes on
 */
export type Wait = <T>(step: T | Promise<T>) => Promise<T>

/** For one request. */
export function createWait(): Wait {
  let leftMs = waitMsMax
  return async function wait<T>(step: T | Promise<T>): Promise<T> {
    const startedAt = performance.now()
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new IngestError('store-unavailable', 'The store did not respond in time.', { retryAfterSeconds: 1 }))
      }, leftMs)
    })
    try {
      return await Promise.race([step, late])
    } finally {
      clearTimeout(timer)
      leftMs -= performance.now() - startedAt
    }
  }
}
