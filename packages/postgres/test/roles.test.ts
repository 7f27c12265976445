import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { migratePostgres } from '../src/schema/migrate.ts'
import { batchOf, idsOf } from './batches.ts'
import { noPostgres, runSql } from './database.ts'
import { createForRoles } from './roles.ts'

t.test('PostgreSQL refuses a role of servers every change but by functions', { skip: noPostgres }, async (t) => {
  const { asOwner, asServer, asStranger } = await createForRoles()
  const store = await openPostgresStore(asServer, { migrate: false })
  await store.append('p', batchOf('a', 'b'))
  const relations = await runSql<{ name: string; kind: string }>(
    asOwner,
    "SELECT c.oid::regclass::text AS name, c.relkind AS kind FROM pg_class c WHERE c.relnamespace = 'ingest'::regnamespace",
  )
  const tables = relations.filter(({ kind }) => kind === 'r').map(({ name }) => name)
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
  for (const sql of statements) {
    await t.rejects(runSql(asServer, sql), { code: '42501' }, sql)
  }
  await t.rejects(migratePostgres(asServer, { newEpoch: true }), { code: 'invalid-argument' })
  t.strictSame(await idsOf(store), ['a', 'b'])
  await store.close()

  // a role that was granted nothing
  for (const sql of ['SELECT * FROM ingest.batches', 'SELECT ingest.require_durability_1()', ...statements]) {
    await t.rejects(runSql(asStranger, sql), { code: '42501' }, sql)
  }
  await t.rejects(openPostgresStore(asStranger, { migrate: false }), { code: 'invalid-argument' })
})
