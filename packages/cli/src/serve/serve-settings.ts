import type { RateLimits } from '@ingest/server'
import type { LogFormat } from './serve-log.ts'

/** How long a project's events are kept, in milliseconds; `*` stands for every other project. */
export type RetentionRule = readonly [project: string, keep: number | 'off']

/** What `ingest serve` was asked for. It survives JSON, so that it can be passed to another process. */
export interface ServeSettings {
  /** A directory, or the URL of a database, which may hold a password. */
  store: string
  /** Whether a missing store is created, and an older schema upgraded. */
  migrate: boolean
  listen: { host: string; port: number }
  /** Default: no limits. */
  rateLimits?: RateLimits
  publicationBytesMax: number
  pendingMapBytesMax: number
  drainTimeoutMs: number
  logLevel: string
  logFormat: LogFormat
  json: boolean
}
