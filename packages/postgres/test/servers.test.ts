import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { createIngest, type Store } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { numberOf } from '../src/projects/project-numbers.ts'
import { batchOf } from './batches.ts'
import { createDatabase, createForRoles, holdLock, noPostgres, runSql } from './database.ts'

/** The measured values by name and labels. */
async function measured(store: Store): Promise<Record<string, number>> {
  const rows = ((await store.measure?.()) ?? []).flatMap(({ name, values }) =>
    values.map(({ labels = {}, value }) => [
      [name.slice('ingest_store_'.length), ...Object.values(labels)].join(' '),
      value,
    ]),
  )
  return Object.fromEntries(rows)
}

t.test('the queue, the connections and the size of the tables are measured', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url, { connectionsMax: 3 })
  t.teardown(() => store.close())
  await store.append('p', batchOf('a'))
  const idle = {
    queue_requests: 0,
    queue_bytes: 0,
    appends_in_flight: 0,
    waiting_statements: 0,
    'connections active': 0,
    connections_max: 3,
  }
  const first = await measured(store)
  t.match(first, { ...idle, servers: 1, survives_primary_loss: 0 })
  t.ok((first.database_bytes as number) > 8192)

  const lock = await holdLock(t, url, `SELECT 1 FROM ingest.heads WHERE project = ${numberOf('p', 0)} FOR UPDATE`)
  const batches = ['b', 'c', 'd'].map((id) => batchOf(id))
  const bytes = batches.reduce((sum, { body }) => sum + body.length, 0)
  const appends = batches.map((batch) => store.append('p', batch))
  let busy = await measured(store)
  while (busy['connections active'] !== 2) {
    await nextTurn()
    busy = await measured(store)
  }
  t.match(busy, { queue_requests: 3, queue_bytes: bytes, appends_in_flight: 2, waiting_statements: 0 })
  await lock.release()
  await Promise.all(appends)
  t.match(await measured(store), idle)
})

t.test('a snapshot of another role is measured without any privilege', { skip: noPostgres }, async (t) => {
  const { asOwner, asServer } = await createForRoles()
  const open = async () => {
    const store = await openPostgresStore(asServer, { migrate: false })
    t.teardown(() => store.close())
    return store
  }
  const before = await open()
  t.equal((await measured(before)).oldest_snapshot_seconds, 0)
  await holdLock(t, asOwner, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM ingest.meta')
  const store = await open()
  const { oldest_snapshot_seconds: first = 0 } = await measured(store)
  t.ok(first > 0)
  t.ok(((await measured(store)).oldest_snapshot_seconds as number) > first, 'and grows')
})

t.test('docs/metrics.md lists every metric, with its labels', { skip: noPostgres }, async (t) => {
  const store = await openPostgresStore(await createDatabase())
  t.teardown(() => store.close())
  const metrics = (await store.measure?.()) ?? []
  t.not(metrics.length, 0)
  const expected = metrics.map(({ name, type, help, values }) => {
    t.equal(type, 'gauge', name)
    const labels = [...new Set(values.flatMap(({ labels = {} }) => Object.keys(labels)))]
    return [`\`${name}${labels.length > 0 ? `{${labels}}` : ''}\``, help]
  })
  const text = readFileSync(join(import.meta.dirname, '../../../../docs/metrics.md'), 'utf8')
  const [, section = ''] = /^### Of a database$(.*?)^###? /ms.exec(text) ?? []
  const listed = Array.from(section.matchAll(/^\| (`ingest_.*) \|$/gm), ([, row = '']) =>
    row.split('|').map((cell) => cell.trim()),
  )
  t.strictSame(listed, expected)
})

t.test('a database that does not respond is measured without its size', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  t.teardown(() => store.close())
  await holdLock(t, url, 'LOCK TABLE ingest.batches IN ACCESS EXCLUSIVE MODE')
  const now = await measured(store)
  t.notOk('database_bytes' in now)
  t.equal(now.queue_requests, 0)
})

t.test('several servers of one database', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const [one, other] = [await openPostgresStore(url), await openPostgresStore(url, { projectAgeMs: 20 })]
  t.teardown(() => Promise.all([one.close(), other.close()]))

  t.test('live servers are counted: not those that closed, nor those without a heartbeat', async (t) => {
    await runSql(url, "INSERT INTO ingest.servers VALUES (gen_random_uuid(), now() - interval '8 seconds')")
    const servers = async () => (await runSql(url, 'SELECT FROM ingest.servers')).length
    const closing = await openPostgresStore(url)
    closing.registerServer?.()
    while ((await servers()) < 2);
    const count = one.registerServer?.()
    while (count?.() !== 2) await sleep(10)
    await closing.close()
    while (count() !== 1) await sleep(10)
    t.equal(await servers(), 2)
  })

  t.test('an event of another server ends a long poll', async (t) => {
    await one.append('p', batchOf('before'))
    const { lastCursor: after } = await one.totals('p')
    const reader = createIngest({ store: { ...other, close: async () => {} } })
    const events = reader.project('p').readEvents({ after, waitMs: 60_000 })
    const next = events[Symbol.asyncIterator]().next()
    await one.append('p', batchOf('awaited'))
    const { value } = await next
    t.match(String(value?.bytes), /awaited/)
    await reader.close()
  })

  t.test('a key that is revoked at one server is revoked at the other', async (t) => {
    const [revoking, cached] = [createIngest({ store: one }), createIngest({ store: other })]
    const { key, record } = await revoking.keys.create('p')
    const credentials = { projectId: 'p', key, scope: 'read' } as const
    t.ok(await cached.authenticate(credentials))
    await revoking.keys.revoke('p', record.keyId)
    t.equal(await revoking.authenticate(credentials), false, 'at once where it was revoked')
    while (await cached.authenticate(credentials)) await sleep(10)
  })
})
