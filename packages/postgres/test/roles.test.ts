import { randomBytes } from 'node:crypto'
import { shareStore, storeChecks } from '@ingest/core/testing'
import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { migratePostgres } from '../src/schema/migrate.ts'
import { batchOf, idsOf } from './batches.ts'
import { createDatabase, noPostgres, openTestServer, runSql } from './database.ts'

const password = 'p@ss word/'

/** A database whose schema belongs to a role without other rights, and is granted to another one. */
async function openRoles() {
  const id = randomBytes(8).toString('hex')
  const [owner, server, stranger] = ['owner', 'server', 'stranger'].map((name) => `ingest_test_${name}_${id}`)
  const admin = await openTestServer()
  for (const role of [owner, server, stranger]) await runSql(admin, `CREATE ROLE ${role} LOGIN PASSWORD '${password}'`)
  // after the databases, which hold rights of these roles
  t.teardown(() => runSql(admin, `DROP ROLE ${owner}, ${server}, ${stranger}`))

  /** The URLs of a new database for each role. */
  async function createFor() {
    const url = await createDatabase()
    await runSql(admin, `ALTER DATABASE ${new URL(url).pathname.slice(1)} OWNER TO ${owner}`)
    const [asOwner, asServer, asStranger] = [owner, server, stranger].map((role) => {
      const ofRole = new URL(url)
      ofRole.username = role as string
      ofRole.password = encodeURIComponent(password)
      return ofRole.href
    }) as [string, string, string]
    await migratePostgres(asOwner, { grantTo: server as string })
    return { asOwner, asServer, asStranger }
  }
  return { createFor }
}

t.test('a role of servers can do all that a store does, and nothing else', { skip: noPostgres }, async (t) => {
  const { createFor } = await openRoles()

  t.test('the store keeps the contract', async (t) => {
    const open = async () => openPostgresStore((await createFor()).asServer, { migrate: false })
    const shared = shareStore(open)
    for (const { name, isolated, run } of storeChecks) await t.test(name, () => run(isolated ? open : shared.open))
    await shared.close()
  })

  t.test('PostgreSQL refuses it every other change', async (t) => {
    const { asOwner, asServer, asStranger } = await createFor()
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
      "SELECT setval('ingest.batch_ids', 0)",
      "SELECT nextval('ingest.batch_ids')",
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
    for (const sql of ['SELECT * FROM ingest.batches', 'SELECT ingest.next_batch_ids_1()', ...statements]) {
      await t.rejects(runSql(asStranger, sql), { code: '42501' }, sql)
    }
    await t.rejects(openPostgresStore(asStranger, { migrate: false }), { code: 'invalid-argument' })
  })
})
