import { setTimeout as sleep } from 'node:timers/promises'
import { type ClockDoubt, IngestError, type Store } from '@ingest/core'
import { createOperations } from '@ingest/core/internal'
import type { ClientBase, PoolClient, PoolConfig } from 'pg'
import { createActivityStore } from './activity/activity-store.ts'
import { checkIsolation, checkSettings } from './connection/check-settings.ts'
import { type Database, openDatabase } from './connection/database.ts'
import { createAppendQueue } from './events/append-queue.ts'
import { createEventStore } from './events/event-store.ts'
import { createEventWatch } from './events/event-watch.ts'
import { createMapStore } from './maps/map-store.ts'
import { createMeasure } from './measure.ts'
import { createEntryStore } from './projects/entry-store.ts'
import { createProjectNumbers } from './projects/project-numbers.ts'
import { checkCompatible, migratePostgres, readSchema, type SchemaState, schemaVersion } from './schema/migrate.ts'
import { createServers } from './servers.ts'
import { createSweep } from './sweep.ts'

/** The durability of acknowledged events in this database. */
export interface DurabilityReport {
  /** Version of PostgreSQL: `18.4`. */
  version: string
  /** The version of the schema. */
  schema: number
  /** Whether a commit waits for a synchronous standby: acknowledged events then survive the loss of the primary. */
  survivesPrimaryLoss: boolean
  synchronousCommit: string
  synchronousStandbyNames: string
}

/** Options of `openPostgresStore`. */
export interface PostgresStoreOptions {
  /**
   * Whether to create or upgrade the schema, which requires its owner. Default: true. With false, for an application
   * role, a missing schema is refused with `store-missing`, an older one with `store-incompatible`.
   */
  migrate?: boolean
  /**
   * Maximum number of connections of this process. With fewer than 20, appends are slower while ids are read from disk.
   * Default: `pool_max_conns` of the URL, as in pgx, or else 20.
   */
  connectionsMax?: number
  /** How long keys are cached, in milliseconds; a revoked key stays valid for at most this time. Default: 1,000. */
  projectAgeMs?: number
  /** Timeout of one statement, in milliseconds. Default: 10,000. */
  statementTimeoutMs?: number
  /** Called before the schema is upgraded, which may take minutes. `migratePostgres` upgrades it while servers run. */
  onMigrate?: (versions: { from: number; to: number }) => void
  /** Called when the store is open. */
  onOpen?: (report: DurabilityReport) => void
}

const checkTimeoutMs = 1500

/**
 * Opens the store in a PostgreSQL database (15 or later, UTF8), and creates its schema `ingest` when it is missing. Any
 * number of processes may have it open.
 *
 * @param target a connection URL, which may name several hosts, or options of a pool of `pg`
 * @throws {IngestError} `store-unavailable`, which is temporary; `store-incompatible` for a database that is not
 *   durable (`fsync` or `full_page_writes` off), is not UTF8, has an unsupported setting, or has the schema of a newer
 *   version; `store-missing`; `invalid-argument`
 */
export async function openPostgresStore(
  target: string | PoolConfig,
  options: PostgresStoreOptions = {},
): Promise<Store> {
  const {
    connectionsMax = connectionsMaxOf(target),
    statementTimeoutMs = 10_000,
    projectAgeMs = 1000,
    onOpen = () => {},
  } = options
  let opened: SchemaState | undefined
  const checkMoved = async (client: ClientBase) => {
    await checkSettings(client)
    if (opened) checkSameStore(opened, await readSchema(client))
  }
  const database = openDatabase(target, { connectionsMax, statementTimeoutMs, checkMoved })
  try {
    const { schema, report } = await database.withConnection((client) => inspect(client))
    const prepared = await prepareSchema(target, schema, options)
    const state = prepared ?? ((await database.withConnection(readSchema)) as SchemaState)
    opened = state
    onOpen({ ...report, schema: state.version })
    return createStore(database, state, projectAgeMs, report.survivesPrimaryLoss)
  } catch (error) {
    await database.close()
    throw error
  }
}

const connectionsMaxDefault = 20

function connectionsMaxOf(target: string | PoolConfig): number {
  const [, query = ''] = typeof target === 'string' ? target.split('?', 2) : []
  const text = new URLSearchParams(query).get('pool_max_conns')
  if (text === null) return connectionsMaxDefault
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text)
  throw new IngestError('invalid-argument', 'pool_max_conns of the database URL must be an integer from 1 to 9,999.')
}

/**
 * Creates or upgrades the schema if necessary and allowed, with the time limits of `migratePostgres`. Returns the
 * schema that was found if there was nothing to do.
 */
async function prepareSchema(
  target: string | PoolConfig,
  found: SchemaState | undefined,
  { migrate: mayMigrate = true, onMigrate = () => {} }: PostgresStoreOptions,
): Promise<SchemaState | undefined> {
  checkCompatible(found)
  if (found && found.version >= schemaVersion) return found
  if (!mayMigrate) {
    throw found
      ? new IngestError(
          'store-incompatible',
          `The schema has version ${found.version}, and this server needs ${schemaVersion}: run \`ingest migrate\` as its owner.`,
        )
      : new IngestError('store-missing', 'The database has no schema "ingest": run `ingest migrate` as its owner.')
  }
  if (found) onMigrate({ from: found.version, to: schemaVersion })
  await migratePostgres(target)
  return undefined
}

/**
 * Checks that another cluster has the same store, schema and epoch of cursors.
 *
 * @throws {IngestError} `store-incompatible`
 */
function checkSameStore(opened: SchemaState, found: SchemaState | undefined): void {
  const refuse = (difference: string, remedy: string) => {
    throw new IngestError('store-incompatible', `the database there ${difference}: ${remedy}`)
  }
  if (found?.storeId !== opened.storeId) {
    refuse('has another store than this server opened', 'point the address back to that one, or restart the servers')
  } else if (found.epoch !== opened.epoch) refuse('has another epoch of cursors', 'restart the servers')
  else if (found.version < schemaVersion) {
    refuse(`has version ${found.version} of the schema`, 'run `ingest migrate` as its owner')
  }
  checkCompatible(found)
}

/**
 * Refuses a database that may lose or change acknowledged data.
 *
 * @throws {IngestError} `store-incompatible`
 */
async function inspect(
  client: PoolClient,
): Promise<{ schema: SchemaState | undefined; report: Omit<DurabilityReport, 'schema'> }> {
  await checkSettings(client)
  const { rows } = await client.query(`SELECT
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS synchronous_standby_names,
    current_setting('server_version') AS version`)
  const [settings] = rows
  const { synchronous_commit: synchronousCommit, synchronous_standby_names: synchronousStandbyNames } = settings
  return {
    schema: await readSchema(client),
    report: {
      version: settings.version.split(' ')[0],
      // every function that writes raises a weaker `synchronous_commit` to `on`
      survivesPrimaryLoss: synchronousStandbyNames !== '',
      synchronousCommit,
      synchronousStandbyNames,
    },
  }
}

/** How far this machine's clock may be ahead of the database's without being doubted, in milliseconds. */
const clockAheadMsMax = 60_000

/** Compares this machine's clock with the database's, which limits the times of receipt. */
async function findClockDoubt(database: Database, now: number): Promise<ClockDoubt | undefined> {
  const [row] = await database.query<{ now: number }>('clock', [])
  if (!row || now - row.now <= clockAheadMsMax) return undefined
  const [own, other] = [now, row.now].map((time) => new Date(time).toISOString())
  return {
    message: `The clock of this machine is at ${own}, and that of the database at ${other}: set the one right that is wrong.`,
    mayBeAhead: true,
  }
}

function createStore(
  database: Database,
  { storeId, epoch }: SchemaState,
  projectAgeMs: number,
  survivesPrimaryLoss: boolean,
): Store {
  const operations = createOperations()
  const identity = { id: uuidBytes(storeId), epoch: uuidBytes(epoch) }
  const numbers = createProjectNumbers(database)
  const watch = createEventWatch(database, numbers)
  const servers = createServers(database)
  const queue = createAppendQueue(database, numbers)
  const events = createEventStore({ database, numbers, queue, identity, checkOpen: operations.checkOpen })
  const { activity, putActivity } = createActivityStore(database, numbers, operations.checkOpen)
  let closing: Promise<void> | undefined

  const tracked = operations.trackAll({
    ...events,
    ...createMapStore({ database, numbers }),
    ...createEntryStore(database, numbers),
    putActivity,
    sweep: createSweep(database, operations.checkOpen),
    measure: createMeasure(database, { queue, servers, survivesPrimaryLoss }),

    findClockDoubt: (_since: number, now: number) => findClockDoubt(database, now),

    async check() {
      const [row] = await database.query<{ isolation: string }>('check', [], performance.now() + checkTimeoutMs)
      if (row) checkIsolation(row.isolation)
    },
  })

  async function closeAll(): Promise<void> {
    watch.close()
    await operations.drain()
    // an unreachable database must not keep the process alive
    await Promise.race([servers.close(), sleep(checkTimeoutMs, undefined, { ref: false })])
    await database.close()
  }

  return {
    ...tracked,
    projectAgeMs,
    read: events.read,
    activity,
    watch: watch.watch,
    registerServer: servers.register,
    watchCommits: queue.watchCommits,
    close() {
      closing ??= closeAll()
      return closing
    },
  }
}

function uuidBytes(text: string): Buffer {
  return Buffer.from(text.replaceAll('-', ''), 'hex')
}
