export type { FetchHandler } from './fetch-handler.ts'
export { toFetchHandler } from './fetch-handler.ts'
export { statusByCode } from './http/response.ts'
export {
  batchesInFlightMax,
  downloadsInFlightMax,
  projectDownloadsMax,
  projectInFlightMax,
  projectUploadsMax,
  uploadsInFlightMax,
} from './limits/concurrency.ts'
export type { RateLimit, RateLimiter, RateLimits } from './limits/rate-limiter.ts'
export { createRateLimiter, projectsTrackedMax, rateLimitsDefault } from './limits/rate-limiter.ts'
export type { Log } from './log.ts'
export type { Handler } from './node-handler.ts'
export { createHandler } from './node-handler.ts'
export type { HandlerOptions } from './router.ts'
export { publicationBytesMaxDefault } from './routes/put-map.ts'
export type { Served, ServeOptions } from './serve.ts'
export { serve } from './serve.ts'
