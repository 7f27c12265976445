export type { AdminOptions } from './admin/admin-router.ts'
export { createAdminHandler } from './admin/admin-router.ts'
export type { FetchHandler } from './fetch-handler.ts'
export { toFetchHandler } from './fetch-handler.ts'
export { concurrencyLimits } from './limits/concurrency.ts'
export type {
  AdmitOptions,
  Amounts,
  Budget,
  MemoryRateLimiter,
  RateLimiter,
  RateLimitHeaders,
} from './limits/rate-limiter.ts'
export { createRateLimiter, projectsTrackedMax } from './limits/rate-limiter.ts'
export type { RateLimit, RateLimits } from './limits/rate-limits.ts'
export { rateLimitsDefault } from './limits/rate-limits.ts'
export type { Address } from './listener/address.ts'
export type { ListenOptions, Served } from './listener/listener.ts'
export type { TlsMaterial } from './listener/tls.ts'
export type { Log, LogLevel } from './log.ts'
export type { Metrics, MetricsOptions, RequestMetrics } from './metrics/metrics.ts'
export { createMetrics } from './metrics/metrics.ts'
export type { Handler } from './node-handler.ts'
export { createHandler } from './node-handler.ts'
export type { HandlerOptions } from './public-router.ts'
export type { ConsoleHandler } from './router.ts'
export type { AdminAddress, ServedWithAdmin, ServeOptions } from './serve.ts'
export { serve } from './serve.ts'
