import type { PoolConfig } from 'pg'

export interface MigrateOptions {
  /** Hash partitions of the table of event ids, 1 to 256; only for a new schema. Default: 1, a plain table. */
  keyPartitions?: number
  /** A role that gets what servers need and no more: SELECT and EXECUTE. */
  grantTo?: string
  /** Begins a new epoch of cursors: after a backup was restored. */
  newEpoch?: boolean
}

/**
 * Creates or upgrades the schema; one process at a time, others wait.
 *
 * @throws {IngestError} as `openPostgresStore`
 */
export async function migratePostgres(
  _target: string | PoolConfig,
  _options: MigrateOptions = {},
): Promise<{ from: number; to: number }> {
  throw new Error('to come')
}

/** All migrations as one script, for `psql`. */
export function printMigrations(_options: Pick<MigrateOptions, 'keyPartitions' | 'grantTo'> = {}): string {
  throw new Error('to come')
}
