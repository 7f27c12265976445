import type { Store } from '@ingest/core'
import type { PoolConfig } from 'pg'

/** What the database promises about acknowledged events. */
export interface DurabilityReport {
  /** Of PostgreSQL: `18.4`. */
  version: string
  /** Of the schema. */
  schema: number
  /** Whether a commit waits for a synchronous standby: acknowledged events survive the loss of the primary. */
  survivesPrimaryLoss: boolean
  synchronousCommit: string
  synchronousStandbyNames: string
}

export interface PostgresStoreOptions {
  /**
   * Whether to create or upgrade the schema, which needs its owner. Default: true. False for an application role:
   * a missing or older schema is refused with `store-missing` or `store-incompatible`.
   */
  migrate?: boolean
  /** The most connections of this process. Default: 10. */
  connectionsMax?: number
  /** How long keys are cached, in milliseconds: a revoked key ends within it. Default: 1,000. */
  projectAgeMs?: number
  /** How long one statement may take, in milliseconds. Default: 10,000. */
  statementTimeoutMs?: number
  /** Called once the store is open. */
  onOpen?: (report: DurabilityReport) => void
}

/**
 * Opens the store in a PostgreSQL database (15 or later, UTF8), and creates its schema `ingest` when it is missing. Any
 * number of processes may have it open.
 *
 * @param target a connection URL, which may name several hosts, or options of a pool of `pg`
 * @throws {IngestError} `store-unavailable`, which is temporary; `store-incompatible` for a database that is not durable
 *   (`fsync` or `full_page_writes` off), not UTF8, or has the schema of a newer version; `store-missing` and
 *   `invalid-argument`
 */
export async function openPostgresStore(_target: string | PoolConfig, _options: PostgresStoreOptions = {}): Promise<Store> {
  throw new Error('to come')
}
