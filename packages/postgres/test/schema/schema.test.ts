import { readFileSync } from 'node:fs'
import type { Store } from '@ingest/core'
import pg from 'pg'
import t from 'tap'
import { openDatabase } from '../../src/connection/database.ts'
import { type DurabilityReport, openPostgresStore } from '../../src/open-postgres-store.ts'
import {
  type MigrateOptions,
  migrate,
  migratePostgres,
  printMigrations,
  schemaVersion,
} from '../../src/schema/migrate.ts'
import { confirmed, type Migration, migrations, queries } from '../../src/sql.ts'
import { batchOf, idsOf } from '../batches.ts'
import {
  cleanUp,
  copyDatabase,
  createDatabase,
  createForRoles,
  dropDatabase,
  holdLock,
  nameOf,
  noPostgres,
  openTestServer,
  runSql,
  waitsForLock,
} from '../database.ts'
import { startPostgres, whyNoServer } from '../postgres-server.ts'

const skip = noPostgres

interface Routine {
  name: string
  firstArgument: string | null
  mayWrite: boolean
  isDefiner: boolean
  settings: string
  body: string
}

t.test('an empty database gets the schema, once', { skip }, async (t) => {
  const url = await createDatabase()
  t.strictSame(await migratePostgres(url), { from: 0, to: schemaVersion })
  t.strictSame(await migratePostgres(url), { from: schemaVersion, to: schemaVersion })
})

t.test('if several processes open an empty database at once, one creates the schema', { skip }, async (t) => {
  const url = await createDatabase()
  const stores = await Promise.all(Array.from({ length: 5 }, () => openPostgresStore(url)))
  for (const [i, store] of stores.entries()) await store.append('p', batchOf(`e-${i}`))
  t.equal((await idsOf(stores[0] as Store)).length, 5)
  for (const store of stores) await store.close()
})

t.test('the printed script creates the same schema', { skip }, async (t) => {
  const [migrated, printed] = [await createDatabase(), await createDatabase()]
  await migratePostgres(migrated)
  await runSql(printed, printMigrations())
  t.strictSame(await describe(printed), await describe(migrated))
  const store = await openPostgresStore(printed, { migrate: false })
  t.strictSame((await store.append('p', batchOf('a'))).stored, [true])
  await store.close()
})

t.test('without migrations, a missing or older schema is refused', { skip }, async (t) => {
  const url = await createDatabase()
  await t.rejects(openPostgresStore(url, { migrate: false }), { code: 'store-missing' })
  await migratePostgres(url)
  await setMeta(url, 'version', schemaVersion - 1)
  const refused = { code: 'store-incompatible', message: /ingest migrate/ }
  await t.rejects(openPostgresStore(url, { migrate: false }), refused)
  const versions: unknown[] = []
  await t.rejects(openPostgresStore(url, { onMigrate: (each) => versions.push(each) }), 'no version is 0')
  t.strictSame(versions, [{ from: 0, to: 1 }], 'an upgrade is announced before it runs')
})

/** A migration of a later version, which changes a table, and creates a table and a function. */
const later: Migration = {
  version: schemaVersion + 1,
  sql: `ALTER TABLE ingest.batches ADD COLUMN origin text;
    CREATE TABLE ingest.origins (project int PRIMARY KEY);
    CREATE FUNCTION ingest.origin_1(project int) RETURNS int LANGUAGE sql AS 'SELECT 1';
  `,
}

async function migrateLater(url: string, options: MigrateOptions = {}) {
  const database = openDatabase(url, { connectionsMax: 1, statementTimeoutMs: 60_000 })
  try {
    return await migrate(database, options, [...migrations, later])
  } finally {
    await database.close()
  }
}

t.test('an upgraded schema equals a new one, and keeps its data', { skip }, async (t) => {
  const [created, url] = [await createDatabase(), await createDatabase()]
  t.strictSame(await migrateLater(created), { from: 0, to: schemaVersion + 1 })
  const store = await openPostgresStore(url)
  await store.append('p', batchOf('a'))
  await store.close()
  t.strictSame(await migrateLater(url), { from: schemaVersion, to: schemaVersion + 1 })
  t.strictSame(await migrateLater(url), { from: schemaVersion + 1, to: schemaVersion + 1 })
  t.strictSame(await describe(url), await describe(created))
  const upgraded = await openPostgresStore(url)
  t.strictSame((await upgraded.append('p', batchOf('a'))).stored, [false])
  await upgraded.close()
})

t.test('a newer schema is refused unless it is compatible with this version', { skip }, async (t) => {
  const url = await createDatabase()
  const running = await openPostgresStore(url)
  await setMeta(url, 'version', schemaVersion + 1)
  await runSql(url, 'ALTER TABLE ingest.batches ADD COLUMN origin text')
  const older = await openPostgresStore(url)
  for (const [i, store] of [running, older].entries()) {
    t.strictSame((await store.append('p', batchOf(`e-${i}`))).stored, [true], 'old servers keep working')
  }
  t.strictSame(await migratePostgres(url), { from: schemaVersion + 1, to: schemaVersion + 1 })
  await setMeta(url, 'compatible', schemaVersion + 1)
  await t.rejects(openPostgresStore(url), { code: 'store-incompatible', message: /upgrade/ })
  await t.rejects(migratePostgres(url), { code: 'store-incompatible', message: /upgrade/ })
  await running.close()
  await older.close()
})

t.test('a copy of a database keeps its cursors; a new epoch refuses earlier ones', { skip }, async (t) => {
  const url = await createDatabase()
  const before = await openPostgresStore(url)
  await before.append('p', batchOf('a', 'b'))
  const { lastCursor: after } = await before.totals('p')
  await before.close()
  const copied = await copyDatabase(url)
  const copy = await openPostgresStore(copied)
  await copy.append('p', batchOf('c'))
  t.strictSame(await idsOf(copy, { after }), ['c'])
  await copy.close()
  await migratePostgres(copied, { newEpoch: true })
  const renewed = await openPostgresStore(copied)
  await t.rejects(idsOf(renewed, { after }), { code: 'invalid-cursor' })
  t.strictSame(await idsOf(renewed), ['a', 'b', 'c'])
  await renewed.close()
})

t.test('ids in hash partitions are unique', { skip }, async (t) => {
  const url = await createDatabase()
  await migratePostgres(url, { keyPartitions: 4 })
  const store = await openPostgresStore(url)
  const ids = Array.from({ length: 100 }, (_, i) => `e-${i}`)
  t.ok((await store.append('p', batchOf(...ids))).stored.every(Boolean))
  t.notOk((await store.append('p', batchOf(...ids))).stored.some(Boolean))
  await store.close()
  const tables = await runSql(url, 'SELECT DISTINCT tableoid FROM ingest.event_keys')
  t.equal(tables.length, 4)
  t.strictSame(await migratePostgres(url, { keyPartitions: 4 }), { from: schemaVersion, to: schemaVersion })
  for (const keyPartitions of [8, 0, 1.5, 257]) {
    await t.rejects(migratePostgres(url, { keyPartitions }), { code: 'invalid-argument' })
  }
  const settings = await runSql(
    url,
    `SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = 'ingest'::regnamespace
      AND c.reloptions @> '{autovacuum_freeze_min_age=0,autovacuum_vacuum_insert_scale_factor=0.01}' ORDER BY 1`,
  )
  const written = ['batches', ...[0, 1, 2, 3].map((i) => `event_keys_${i}`)]
  t.strictSame(
    settings,
    written.map((name) => ({ name })),
    'a vacuum freezes what is written once',
  )
})

t.test('a database that is not UTF8 is refused', { skip }, async (t) => {
  const url = await createDatabase()
  const ascii = new URL(url)
  ascii.pathname += '_ascii'
  await runSql(url, `CREATE DATABASE ${nameOf(ascii.href)} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'`)
  cleanUp(() => dropDatabase(ascii.href))
  await t.rejects(openPostgresStore(ascii.href), { code: 'store-incompatible', message: /SQL_ASCII/ })
})

t.test('the report describes the durability of acknowledged events', { skip: whyNoServer() }, async (t) => {
  const server = await startPostgres()
  const reportOf = async () => {
    let report: DurabilityReport | undefined
    const onOpen = (each: DurabilityReport) => {
      report = each
    }
    await (await openPostgresStore(server.url, { onOpen })).close()
    return report
  }
  t.match(await reportOf(), { schema: schemaVersion, synchronousCommit: 'on', survivesPrimaryLoss: false })
  const { directory, port } = server
  for (const settings of [{ synchronous_standby_names: 'standby' }, { fsync: 'off' }, { full_page_writes: 'off' }]) {
    await server.stop()
    await startPostgres({ directory, port, settings })
    const [[name, value]] = Object.entries(settings) as [[string, string]]
    if (value === 'standby') t.match(await reportOf(), { survivesPrimaryLoss: true, synchronousStandbyNames: value })
    else await t.rejects(reportOf(), { code: 'store-incompatible', message: `runs with ${name} = off` })
  }
  await server.stop()
})

t.test('a weaker durability of the session is raised', { skip }, async (t) => {
  const url = await createDatabase()
  await migratePostgres(url)
  const client = new pg.Client(url)
  await client.connect()
  t.teardown(() => client.end())
  await client.query('SET synchronous_commit = off')
  await client.query('BEGIN')
  await client.query("SELECT ingest.create_project_1(1, 'p')")
  t.strictSame((await client.query('SHOW synchronous_commit')).rows, [{ synchronous_commit: 'on' }])
})

t.test('functions that servers call run as their owner, durably, with a time limit for locks', { skip }, async (t) => {
  const url = await createDatabase()
  await migratePostgres(url)
  const routines = await runSql<Routine>(
    url,
    `SELECT p.proname AS name, p.proargnames[1] AS "firstArgument", p.provolatile = 'v' AS "mayWrite", p.prosecdef AS "isDefiner",
      coalesce(p.proconfig::text, '') AS settings, p.prosrc AS body
    FROM pg_proc p WHERE p.pronamespace = 'ingest'::regnamespace`,
  )
  const called = [...queries.values(), confirmed('')].join()
  const ofServers = ['register_server_1', 'unregister_server_1']
  for (const { name, firstArgument, mayWrite, isDefiner, settings, body } of routines) {
    // a function that only other functions call has the rights of its caller
    if (mayWrite) t.equal(isDefiner, called.includes(`ingest.${name}(`), name)
    // without it, the function would find a type that its caller created
    if (isDefiner || settings !== '') t.match(settings, '"search_path=pg_catalog, pg_temp"', name)
    if (isDefiner && name !== 'unregister_server_1') t.match(settings, 'lock_timeout=5s', name)
    if (!isDefiner || ofServers.includes(name)) continue
    t.match(body, 'ingest.require_durability_1()', name)
    // a statement that writes concerns one project
    t.equal(firstArgument, 'project', name)
  }
  t.ok(routines.length > 10)
})

t.test('PostgreSQL refuses every change by a role of servers except through functions', { skip }, async (t) => {
  const { asOwner, asServer, asStranger } = await createForRoles()
  const store = await openPostgresStore(asServer, { migrate: false })
  await store.append('p', batchOf('a', 'b'))
  const relations = await runSql<{ name: string }>(
    asOwner,
    "SELECT c.oid::regclass::text AS name FROM pg_class c WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r'",
  )
  const tables = relations.map(({ name }) => name)
  t.ok(tables.includes('ingest.batches') && tables.includes('ingest.event_keys') && tables.length > 4)
  const ofTable = (table: string) => [
    `INSERT INTO ${table} DEFAULT VALUES`,
    `DELETE FROM ${table}`,
    `TRUNCATE ${table} CASCADE`,
    `DROP TABLE ${table} CASCADE`,
    `ALTER TABLE ${table} ADD COLUMN x int`,
    `CREATE INDEX ON ${table} ((1))`,
    `CREATE TRIGGER x BEFORE INSERT ON ${table} EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
    `CREATE RULE x AS ON INSERT TO ${table} DO INSTEAD NOTHING`,
    `DO 'BEGIN LOCK TABLE ${table} IN EXCLUSIVE MODE; END'`,
  ]
  const statements = [
    ...tables.flatMap(ofTable),
    'UPDATE ingest.batches SET body = body',
    'UPDATE ingest.event_keys SET idx = idx',
    'UPDATE ingest.heads SET seq = 0',
    'UPDATE ingest.projects SET state = NULL',
    "UPDATE ingest.meta SET value = ''",
    'SELECT * FROM ingest.heads FOR UPDATE',
    'CREATE TABLE ingest.x (a int)',
    'CREATE FUNCTION ingest.x() RETURNS int LANGUAGE sql RETURN 1',
    'CREATE OR REPLACE FUNCTION ingest.require_durability_1() RETURNS void LANGUAGE sql BEGIN ATOMIC END',
    'ALTER FUNCTION ingest.require_durability_1() SECURITY DEFINER',
    'DROP FUNCTION ingest.require_durability_1()',
    'DROP SCHEMA ingest CASCADE',
    'ALTER SCHEMA ingest RENAME TO x',
  ]
  await refused(asServer, statements)
  await t.rejects(migratePostgres(asServer, { newEpoch: true }), { code: 'invalid-argument' })
  // a role without any privilege
  await refused(asStranger, ['SELECT * FROM ingest.batches', 'SELECT ingest.require_durability_1()', ...statements])
  await t.rejects(openPostgresStore(asStranger, { migrate: false }), { code: 'invalid-argument' })

  t.equal(await store.erase('p', ['a']), 1)
  await runSql(asOwner, `REVOKE EXECUTE ON FUNCTION ingest.erase_1 FROM PUBLIC, "${new URL(asServer).username}"`)
  await t.rejects(store.erase('p', ['b']), { code: 'store-failed', message: /permission denied/ })
  await t.rejects(store.expire('p', Date.now() + 60_000), { code: 'store-failed' })
  t.strictSame(await idsOf(store), ['b'])
  await store.close()

  async function refused(url: string, all: readonly string[]): Promise<void> {
    const client = new pg.Client(url)
    await client.connect()
    for (const sql of all) await t.rejects(client.query(sql), { code: '42501' }, sql)
    await client.end()
  }
})

t.test('everything belongs to the owner of the schema, whichever role migrates', { skip }, async (t) => {
  const [owner, stranger] = [userOf(await createForRoles(), 'asOwner'), userOf(await createForRoles(), 'asStranger')]
  const superuser = await openTestServer()
  await runSql(superuser, `GRANT ${owner} TO ${stranger}`)
  t.teardown(() => runSql(superuser, `REVOKE ${owner} FROM ${stranger}`))
  const cases: [what: string, prepare: (asOwner: string) => Promise<unknown>][] = [
    ['a new schema', async () => {}],
    ['an older one', migratePostgres],
  ]
  for (const [what, prepare] of cases) {
    for (const by of ['a superuser', 'a member of the owner', 'psql'] as const) {
      const { asOwner, asServer, asStranger } = await createForRoles({ isMigrated: false })
      await prepare(asOwner)
      // earlier grants stay in force
      const asSuperuser = Object.assign(new URL(superuser), { pathname: `/${nameOf(asOwner)}` }).href
      const grantTo = userOf({ asServer }, 'asServer')
      if (what === 'an older one') await runSql(asOwner, `GRANT USAGE ON SCHEMA ingest TO ${grantTo}`)
      const upgrade = what === 'an older one' ? migrateLater : migratePostgres
      if (by === 'a superuser') await upgrade(asSuperuser, { grantTo })
      else if (by === 'a member of the owner') {
        if (what === 'a new schema') await migratePostgres(asOwner)
        await runSql(asOwner, `GRANT USAGE ON SCHEMA ingest TO ${stranger}; GRANT SELECT ON ingest.meta TO ${stranger}`)
        await upgrade(asStranger, { grantTo })
      } else if (what === 'a new schema') await runSql(asSuperuser, printMigrations({ grantTo }))
      else continue
      const owners = await runSql<{ owner: string }>(
        asOwner,
        `SELECT DISTINCT pg_get_userbyid(o.owner) AS owner FROM (
          SELECT relowner AS owner FROM pg_class WHERE relnamespace = 'ingest'::regnamespace
          UNION SELECT proowner FROM pg_proc WHERE pronamespace = 'ingest'::regnamespace
          UNION SELECT nspowner FROM pg_namespace WHERE nspname = 'ingest') o`,
      )
      t.strictSame(owners, [{ owner }], `${what}, by ${by}`)
      const store = await openPostgresStore(asServer, { migrate: false })
      t.strictSame((await store.append('p', batchOf('a'))).stored, [true], 'and its servers may use all')
      await store.close()
    }
  }
})

t.test('a schema is not migrated by a role that may not be its owner', { skip }, async (t) => {
  const { asOwner, asServer } = await createForRoles()
  const refused = {
    code: 'invalid-argument',
    message: /does not own the schema "ingest": migrate as ingest_test_owner_/,
  }
  await setMeta(asOwner, 'version', schemaVersion - 1)
  for (const options of [{}, { newEpoch: true }, { grantTo: 'postgres' }]) {
    await t.rejects(migratePostgres(asServer, options), refused)
  }
  await t.rejects(openPostgresStore(asServer), refused, 'a server neither')
  const ofSuperuser = await createDatabase()
  const asSuperuser = {
    code: 'invalid-argument',
    message: /the superuser \w+, with whose rights.*ordinary role the owner/,
  }
  const grantTo = userOf({ asServer }, 'asServer')
  await t.rejects(migratePostgres(ofSuperuser, { grantTo }), asSuperuser)
  await t.rejects(runSql(ofSuperuser, printMigrations({ grantTo })), { code: 'IG003' })
  t.strictSame(await runSql(ofSuperuser, "SELECT FROM pg_namespace WHERE nspname = 'ingest'"), [])
})

t.test('a server that migrates is not bound to the time limit of its statements', { skip }, async (t) => {
  const url = await createDatabase()
  const lock = await holdLock(t, url, 'SELECT pg_advisory_xact_lock(115882870141812)')
  const opening = openPostgresStore(url, { statementTimeoutMs: 200 })
  // another server migrates for longer than a statement and a connection may take
  const waited = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'
    AND clock_timestamp() - query_start > interval '2500 ms'`
  do t.ok(await waitsForLock(url, opening))
  while ((await runSql(url, waited)).length === 0)
  await lock.release()
  await (await opening).close()
})

t.test('the queries for operators return the expected rows', { skip }, async (t) => {
  const text = readFileSync(new URL('../../sql/operators.sql', import.meta.url), 'utf8')
  for (const keyPartitions of [1, 2]) {
    const url = await createDatabase()
    await migratePostgres(url, { keyPartitions })
    const [waiting, client, reader] = [new pg.Client(url), new pg.Client(url), new pg.Client(url)]
    await Promise.all([waiting.connect(), client.connect(), reader.connect()])
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    const [{ pid }] = (await reader.query('SELECT pg_backend_pid() AS pid')).rows
    await client.query('CREATE TABLE later (a int)')
    await client.query('SELECT pg_advisory_lock(1)')
    const locking = waiting.query('SELECT pg_advisory_lock(1)')
    await waitsForLock(url, locking)
    const results = (await client.query(text)) as unknown as pg.QueryResult[]
    const [ages, hits, waits, snapshots, , density] = results.map(({ rows }) => rows)
    t.ok(ages?.some(({ relname, transactions }) => relname.startsWith('event_keys') && transactions >= 0))
    t.equal(hits?.length, keyPartitions)
    t.match(waits, [{ wait_event_type: 'Lock', wait_event: 'advisory', statements: '1' }])
    t.match(snapshots?.[0], { kind: 'session', name: String(pid), transactions: Number })
    t.equal(density?.length, keyPartitions)
    await client.end()
    await locking
    await Promise.all([waiting.end(), reader.end()])
  }
})

function userOf<Urls extends object>(urls: Urls, of: keyof Urls): string {
  return new URL(String(urls[of])).username
}

async function setMeta(url: string, name: string, value: number): Promise<void> {
  await runSql(url, 'UPDATE ingest.meta SET value = $2 WHERE name = $1', [name, String(value)])
}

/** The columns, indexes and functions of the schema. */
async function describe(url: string): Promise<unknown[]> {
  const queries = [
    "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns WHERE table_schema = 'ingest' ORDER BY 1, ordinal_position",
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'ingest' ORDER BY 1",
    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'ingest'::regnamespace ORDER BY oid::regprocedure::text",
  ]
  return Promise.all(queries.map((sql) => runSql(url, sql)))
}
