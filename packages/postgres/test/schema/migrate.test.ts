import type { IngestError, Store } from '@ingest/core'
import pg from 'pg'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { migratePostgres, printMigrations, schemaVersion } from '../../src/schema/migrate.ts'
import { batchOf, idsOf } from '../batches.ts'
import { cleanUp, copyDatabase, createDatabase, dropDatabase, noPostgres, runSql } from '../database.ts'
import { startPostgres, whyNoServer } from '../postgres-server.ts'

t.test('migrations', { skip: noPostgres }, async (t) => {
  t.test('an empty database gets the schema, once', async (t) => {
    const url = await createDatabase()
    t.strictSame(await migratePostgres(url), { from: 0, to: schemaVersion })
    t.strictSame(await migratePostgres(url), { from: schemaVersion, to: schemaVersion })
  })

  t.test('of several processes that open an empty database at once, one creates the schema', async (t) => {
    const url = await createDatabase()
    const stores = await Promise.all(Array.from({ length: 5 }, () => openPostgresStore(url)))
    for (const [i, store] of stores.entries()) await store.append('p', batchOf(`e-${i}`))
    t.equal((await idsOf(stores[0] as Store)).length, 5)
    for (const store of stores) await store.close()
  })

  t.test('the printed script creates the same schema', async (t) => {
    const [migrated, printed] = [await createDatabase(), await createDatabase()]
    await migratePostgres(migrated)
    await runScript(printed, printMigrations())
    t.strictSame(await describe(printed), await describe(migrated))
    const store = await openPostgresStore(printed, { migrate: false })
    t.strictSame((await store.append('p', batchOf('a'))).stored, [true])
    await store.close()
  })

  t.test('without migrations, a missing or older schema is refused', async (t) => {
    const url = await createDatabase()
    await t.rejects(openPostgresStore(url, { migrate: false }), { code: 'store-missing' })
    await migratePostgres(url)
    await setMeta(url, 'version', schemaVersion - 1)
    await t.rejects(openPostgresStore(url, { migrate: false }), {
      code: 'store-incompatible',
      message: /ingest migrate/,
    })
  })

  t.test('a newer schema is refused unless it is compatible with this version', async (t) => {
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

  t.test('a new epoch refuses the cursors from before it', async (t) => {
    const url = await createDatabase()
    const before = await openPostgresStore(url)
    await before.append('p', batchOf('a', 'b'))
    const cursor = await before.lastCursor('p')
    await before.close()
    await migratePostgres(url, { newEpoch: true })
    const after = await openPostgresStore(url)
    await t.rejects(after.read('p', { after: cursor })[Symbol.asyncIterator]().next(), { code: 'invalid-cursor' })
    t.strictSame(await idsOf(after), ['a', 'b'])
    await after.close()
  })

  t.test('ids in hash partitions are unique', async (t) => {
    const url = await createDatabase()
    await migratePostgres(url, { keyPartitions: 4 })
    const store = await openPostgresStore(url)
    const ids = Array.from({ length: 100 }, (_, i) => `e-${i}`)
    t.ok((await store.append('p', batchOf(...ids))).stored.every(Boolean))
    t.notOk((await store.append('p', batchOf(...ids))).stored.some(Boolean))
    const counts = await runSql<{ ids: number }>(
      url,
      'SELECT count(*)::int AS ids FROM ingest.event_keys GROUP BY tableoid',
    )
    t.equal(counts.length, 4)
    await store.close()
    await t.rejects(migratePostgres(url, { keyPartitions: 8 }), { code: 'invalid-argument' })
    t.strictSame(await migratePostgres(url, { keyPartitions: 4 }), { from: schemaVersion, to: schemaVersion })
    for (const keyPartitions of [0, 1.5, 257]) {
      await t.rejects(migratePostgres(url, { keyPartitions }), { code: 'invalid-argument' })
    }
  })

  t.test('a database that is not UTF8 is refused', async (t) => {
    const url = await createDatabase()
    const ascii = new URL(url)
    ascii.pathname += '_ascii'
    await runSql(url, `CREATE DATABASE ${ascii.pathname.slice(1)} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'`)
    cleanUp(() => dropDatabase(ascii.href))
    await t.rejects(openPostgresStore(ascii.href), { code: 'store-incompatible', message: /SQL_ASCII/ })
  })

  t.test('the report says what durability is worth', async (t) => {
    const url = await createDatabase()
    let report: object | undefined
    const onOpen = (each: object) => {
      report = each
    }
    await (await openPostgresStore(url, { onOpen })).close()
    t.match(report, { schema: schemaVersion, synchronousCommit: 'on', survivesPrimaryLoss: false })
  })

  const ownServer = process.env.INGEST_TEST_POSTGRES ? 'it changes a setting of the server' : false
  t.test('a synchronous standby is reported', { skip: ownServer }, async (t) => {
    const url = await createDatabase()
    await migratePostgres(url)
    t.teardown(() => setStandbyNames(url, ''))
    await setStandbyNames(url, 'standby')
    const reports: object[] = []
    await (await openPostgresStore(url, { onOpen: (report) => void reports.push(report) })).close()
    t.match(reports, [{ survivesPrimaryLoss: true, synchronousStandbyNames: 'standby' }])
  })

  t.test('a weaker durability of the session is raised', async (t) => {
    const url = await createDatabase()
    await migratePostgres(url)
    const client = new pg.Client(url)
    await client.connect()
    await client.query('SET synchronous_commit = off')
    await client.query('BEGIN')
    await client.query("SELECT ingest.create_project_1(1, 'p')")
    const { rows } = await client.query('SHOW synchronous_commit')
    t.strictSame(rows, [{ synchronous_commit: 'on' }])
    await client.end()
  })

  t.test('a copy of a database keeps its identity', async (t) => {
    const url = await createDatabase()
    const store = await openPostgresStore(url)
    await store.append('p', batchOf('a'))
    const cursor = await store.lastCursor('p')
    await store.close()
    const copy = await openPostgresStore(await copyDatabase(url))
    await copy.append('p', batchOf('b'))
    t.strictSame(await idsOf(copy, { after: cursor }), ['b'])
    await copy.close()
  })
})

t.test('a server that may lose or tear what it acknowledged is refused', { skip: whyNoServer() }, async (t) => {
  for (const setting of ['fsync', 'full_page_writes']) {
    const server = await startPostgres({ settings: { [setting]: 'off' } })
    const message = new RegExp(`runs with ${setting} = off`)
    await t.rejects(openPostgresStore(server.url), { code: 'store-incompatible', message })
    await server.stop()
  }
})

t.test('a database that cannot be reached is unavailable, and temporarily', async (t) => {
  const error: IngestError = await openPostgresStore('postgres://user:canary@127.0.0.1:1/db').catch((each) => each)
  t.match(error, { code: 'store-unavailable', retryable: true, retryAfterSeconds: 1 })
  t.notMatch(error.message, /canary/)
})

/** Resolves once new sessions see it. */
async function setStandbyNames(url: string, names: string): Promise<void> {
  await runSql(url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`)
  await runSql(url, 'SELECT pg_reload_conf()')
  for (;;) {
    const [row] = await runSql<{ value: string }>(url, "SELECT current_setting('synchronous_standby_names') AS value")
    if (row?.value === names) return
  }
}

async function setMeta(url: string, name: string, value: number): Promise<void> {
  await runSql(url, 'UPDATE ingest.meta SET value = $2 WHERE name = $1', [name, String(value)])
}

async function runScript(url: string, script: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(script)
  await client.end()
}

/** The columns, indexes and functions of the schema. */
async function describe(url: string): Promise<unknown[]> {
  return [
    await runSql(
      url,
      "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns WHERE table_schema = 'ingest' ORDER BY 1, ordinal_position",
    ),
    await runSql(url, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'ingest' ORDER BY 1"),
    await runSql(
      url,
      "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'ingest'::regnamespace ORDER BY oid::regprocedure::text",
    ),
  ]
}
