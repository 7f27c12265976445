import { IngestError } from '@ingest/core'
import type { LogError } from '../log.ts'
import type { RateLimiter } from './rate-limiter.ts'

/**
 * A limiter of the embedder, whose failures refuse requests. A request that was admitted and handled is not refused
 * because its headers fail: it has none then.
 *
 * @throws {IngestError} what `limiter` throws, and `overloaded` for any other error, which is logged
 */
export function guardRateLimiter(limiter: RateLimiter, logError: LogError): RateLimiter {
  async function guard<T>(call: () => T | Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      if (error instanceof IngestError) throw error
      logError('overloaded', { err: error }, 'rate limits cannot be checked')
      throw new IngestError('overloaded', 'Rate limits cannot be checked now: try again later.', {
        retryAfterSeconds: 1,
      })
    }
  }
  return {
    admit: (...args) => guard(() => limiter.admit(...args)),
    charge: (...args) => guard(() => limiter.charge(...args)),
    headers: (...args) => guard(() => limiter.headers(...args)).catch(() => undefined),
  }
}
