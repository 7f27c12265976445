import { IngestError } from '@ingest/core'
import type { PoolClient, PoolConfig } from 'pg'
import { type Database, openDatabase } from '../connection/database.ts'
import { foreignSchema } from '../connection/database-error.ts'
import { type Migration, migrations } from '../sql.ts'

/** Options of `migratePostgres`. */
export interface MigrateOptions {
  /** Hash partitions of the table of event ids, 1 to 256; only for a new schema. Default: 1, a plain table. */
  keyPartitions?: number
  /** A role that is granted only what servers need: SELECT and EXECUTE. */
  grantTo?: string
  /** Whether to begin a new epoch of cursors, after a backup was restored. */
  newEpoch?: boolean
}

/** The version of the schema that this package creates. */
export const schemaVersion = migrations.at(-1)?.version ?? 0
const keyPartitionsMax = 256
/** How long a process waits for another one that migrates, and for each of its own statements, in milliseconds. */
const migrateTimeoutMs = 600_000
/** The advisory lock of migrations: "ingest" in ASCII. */
const migrationLock = '115882870141812'

/** Begins a migration's transaction, independent of settings of the role and the database. */
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL exit_on_error = off;
SET LOCAL default_table_access_method = heap;
SET LOCAL statement_timeout = ${migrateTimeoutMs};
SET LOCAL lock_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
-- only some versions of PostgreSQL have these
SELECT set_config(s.name, s.boot_val, true) FROM pg_settings s
  WHERE s.name IN ('transaction_timeout', 'restrict_nonsystem_relation_kind');
`

/**
 * Creates or upgrades the schema; one process at a time, others wait.
 *
 * @throws {IngestError} as `openPostgresStore`
 */
export async function migratePostgres(
  target: string | PoolConfig,
  options: MigrateOptions = {},
): Promise<{ from: number; to: number }> {
  const database = openDatabase(target, { connectionsMax: 1, statementTimeoutMs: migrateTimeoutMs })
  try {
    return await migrate(database, options)
  } finally {
    await database.close()
  }
}

/** Runs all missing migrations in one transaction. `all` is for tests, as there is only one migration yet. */
export async function migrate(
  database: Database,
  { keyPartitions, grantTo, newEpoch = false }: MigrateOptions,
  all: readonly Migration[] = migrations,
): Promise<{ from: number; to: number }> {
  checkPartitions(keyPartitions)
  const newest = all.at(-1)?.version ?? 0
  return database.withConnection(async (client) => {
    await client.query(begin)
    await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`)
    const state = await readSchema(client)
    const from = state?.version ?? 0
    checkCompatible(state)
    if (from > 0 && keyPartitions !== undefined) await checkUnchanged(client, keyPartitions)
    if (from < newest || newEpoch || grantTo !== undefined) await client.query(becomeOwner(grantTo))
    if (from < newest) {
      await checkDatabase(client)
      await client.query(script(all, from, keyPartitions ?? 1))
    }
    if (newEpoch) await client.query("UPDATE ingest.meta SET value = gen_random_uuid()::text WHERE name = 'epoch'")
    if (grantTo !== undefined) await client.query(grants(grantTo))
    await client.query('COMMIT')
    return { from, to: Math.max(from, newest) }
  })
}

/** All migrations as one script, for `psql`. */
export function printMigrations({
  keyPartitions,
  grantTo,
}: Pick<MigrateOptions, 'keyPartitions' | 'grantTo'> = {}): string {
  checkPartitions(keyPartitions)
  const statements = [script(migrations, 0, keyPartitions ?? 1), grantTo === undefined ? '' : grants(grantTo)]
  return `${begin}${becomeOwner(grantTo)}${statements.join('\n')}COMMIT;\n`
}

export interface SchemaState {
  version: number
  /** The oldest version of servers that may use the schema. */
  compatible: number
  storeId: string
  epoch: string
}

/**
 * The state of the schema; undefined if there is none.
 *
 * @throws {IngestError} `store-incompatible` if the schema is not Ingest's
 */
export async function readSchema(client: Pick<PoolClient, 'query'>): Promise<SchemaState | undefined> {
  const { rows: found } = await client.query("SELECT to_regclass('ingest.meta') IS NOT NULL AS found")
  if (!found[0].found) return undefined
  const { rows } = await client.query('SELECT m.name, m.value FROM ingest.meta m')
  const values = new Map(rows.map(({ name, value }) => [name, value]))
  const [version, compatible] = [Number(values.get('version')), Number(values.get('compatible'))]
  if (!Number.isInteger(version) || !Number.isInteger(compatible)) throw foreignSchema('it has no version')
  return { version, compatible, storeId: values.get('store_id'), epoch: values.get('epoch') }
}

/**
 * Checks that this version can use the schema.
 *
 * @throws {IngestError} `store-incompatible` for the schema of a newer version
 */
export function checkCompatible(state: SchemaState | undefined): void {
  if (state === undefined || state.compatible <= schemaVersion) return
  throw new IngestError(
    'store-incompatible',
    `The schema has version ${state.version} and needs servers of version ${state.compatible} or later; this one has ${schemaVersion}: upgrade it.`,
  )
}

async function checkDatabase(client: PoolClient): Promise<void> {
  const { rows } = await client.query(
    "SELECT current_setting('server_encoding') AS encoding, current_setting('server_version_num')::int AS version",
  )
  const [{ encoding, version }] = rows
  if (encoding !== 'UTF8') {
    throw new IngestError('store-incompatible', `The database has the encoding ${encoding}: create one with UTF8.`)
  }
  if (version < 150_000) throw new IngestError('store-incompatible', 'PostgreSQL 15 or later is needed.')
}

async function checkUnchanged(client: PoolClient, keyPartitions: number): Promise<void> {
  const { rows } = await client.query(
    "SELECT greatest(count(*), 1)::int AS partitions FROM pg_inherits i WHERE i.inhparent = 'ingest.event_keys'::regclass",
  )
  if (rows[0].partitions === keyPartitions) return
  throw new IngestError(
    'invalid-argument',
    `The schema has ${rows[0].partitions} partitions of keys: the number can only be set for a new schema.`,
  )
}

/**
 * Switches to the owner of the schema, so that everything belongs to one role: functions run with the rights of their
 * owner, and default privileges apply only to the objects of one role. A superuser creates a new schema as the owner of
 * the database. If rights are granted to a role, a superuser as the owner is refused.
 */
const becomeOwner = (grantTo: string | undefined) => `DO $$
DECLARE
  owner name := (SELECT coalesce(
    (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n WHERE n.nspname = 'ingest'),
    (SELECT pg_get_userbyid(d.datdba) FROM pg_database d JOIN pg_roles r ON r.rolname = current_user
      WHERE d.datname = current_database() AND r.rolsuper),
    current_user));
BEGIN
  IF owner <> current_user THEN EXECUTE format('SET LOCAL ROLE %I', owner); END IF;
  IF ${grantTo !== undefined} AND (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = owner) THEN
    RAISE EXCEPTION 'The schema belongs to the superuser %, with whose rights its functions would run for other roles', owner
      USING ERRCODE = 'IG003', HINT = 'make an ordinary role the owner of the database, and migrate as that one';
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION '% does not own the schema "ingest"', current_user
    USING ERRCODE = 'IG003', HINT = format('migrate as %s, or as a role that may become it', owner);
END $$;
`

/** `CREATE SCHEMA IF NOT EXISTS` would require the right to create schemas even if this one exists. */
const createSchema = `DO $$ BEGIN
  IF to_regnamespace('ingest') IS NULL THEN CREATE SCHEMA ingest; END IF;
END $$;
REVOKE ALL ON SCHEMA ingest FROM PUBLIC;
`

/** Storage settings of a table, which only its partitions may have if it is partitioned. */
const partitioned = /(WITH \([^)]*\)) \/\*partitions\*\//

function script(all: readonly Migration[], from: number, keyPartitions: number): string {
  const steps = all
    .filter(({ version }) => version > from)
    .map(({ version, sql }) => {
      const [, settings] = partitioned.exec(sql) ?? []
      const isPartitioned = settings !== undefined && keyPartitions > 1
      const statements = sql.replace(partitioned, isPartitioned ? 'PARTITION BY HASH (key)' : '$1')
      const partitions = isPartitioned ? partitionTables(keyPartitions, settings) : ''
      return `-- migration ${version}\n${statements}${partitions}UPDATE ingest.meta SET value = '${version}' WHERE name = 'version';\n`
    })
  return `${from === 0 ? createSchema : ''}${steps.join('\n')}`
}

function partitionTables(count: number, settings: string): string {
  const tableOf = (i: number) =>
    `CREATE TABLE ingest.event_keys_${i} PARTITION OF ingest.event_keys FOR VALUES WITH (MODULUS ${count}, REMAINDER ${i}) ${settings};\n`
  return Array.from({ length: count }, (_, i) => tableOf(i)).join('')
}

/** The rights of a server, which writes only through functions. */
function grants(role: string): string {
  const name = `"${role.replaceAll('"', '""')}"`
  return `GRANT USAGE ON SCHEMA ingest TO ${name};
GRANT SELECT ON ALL TABLES IN SCHEMA ingest TO ${name};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ingest TO ${name};
ALTER DEFAULT PRIVILEGES IN SCHEMA ingest GRANT SELECT ON TABLES TO ${name};
ALTER DEFAULT PRIVILEGES IN SCHEMA ingest GRANT EXECUTE ON FUNCTIONS TO ${name};
`
}

function checkPartitions(count: number | undefined): void {
  if (count === undefined || (Number.isInteger(count) && count >= 1 && count <= keyPartitionsMax)) return
  throw new IngestError('invalid-argument', `keyPartitions must be an integer from 1 to ${keyPartitionsMax}.`)
}
