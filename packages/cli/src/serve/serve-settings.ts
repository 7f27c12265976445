import type { RateLimits } from '@ingest/server'
import type { LogFormat } from './serve-log.ts'

/** The settings of `ingest serve`, without INGEST_ADMIN_TOKEN. */
export interface ServeSettings {
  /** A directory, or the URL of a database, which may hold a password. */
  store: string
  /** Whether a missing store is created, and an older schema upgraded. */
  migrate: boolean
  /** Connections to a database, of this process. */
  connectionsMax: number
  listen: { host: string; port: number } | { socket: string }
  /** Paths of PEM files. Default: HTTP. */
  tls?: { cert: string; key: string }
  /** The number of proxies in front, or their addresses and CIDR blocks. Default: none. */
  trustProxy?: number | readonly string[]
  /** The origins of web pages that may call the API. */
  cors: readonly string[]
  /** Whether the console is served. */
  console: boolean
  /** Whether the text of rejected events is kept in memory. */
  keepRejected: boolean
  drainTimeoutMs: number
  /** Where operators reach metrics, health and keys. Default: nowhere. */
  admin?: { host: string; port: number }
  /** The most projects with a label of their own in metrics. */
  metricsProjects: number
  /** Default: no limits. */
  rateLimits?: RateLimits
  publicationBytesMax: number
  pendingMapBytesMax: number
  /** How long events are kept. Default: permanently. */
  retention: readonly RetentionRule[]
  logLevel: string
  logFormat: LogFormat
  /** The file of settings. */
  config?: string
  json: boolean
}

/** How long a project's events are kept, in milliseconds. `*` stands for every project without a rule of its own. */
export type RetentionRule = readonly [project: string, keep: number | 'off']
