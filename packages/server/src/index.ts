export type { Handler } from './create-handler.ts'
export { createHandler } from './create-handler.ts'
export type { RateLimit, RateLimiter, RateLimits } from './create-rate-limiter.ts'
export { createRateLimiter, projectsTrackedMax, rateLimitsDefault } from './create-rate-limiter.ts'
export type { HandlerOptions } from './create-router.ts'
export type { Log } from './log.ts'
export {
  batchesInFlightMax,
  downloadsInFlightMax,
  projectDownloadsMax,
  projectInFlightMax,
  projectUploadsMax,
  uploadsInFlightMax,
} from './places.ts'
export { publicationBytesMaxDefault } from './receive-publication.ts'
export type { Served, ServeOptions } from './serve.ts'
export { serve } from './serve.ts'
export { statusByCode } from './status-by-code.ts'
export type { FetchHandler } from './to-fetch-handler.ts'
export { toFetchHandler } from './to-fetch-handler.ts'
