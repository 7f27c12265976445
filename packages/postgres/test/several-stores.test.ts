import { setTimeout as sleep } from 'node:timers/promises'
import { createIngest, type Store } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { batchOf } from './batches.ts'
import { createDatabase, noPostgres, runSql } from './database.ts'

/** Resolves once the store counts this many servers. */
async function counts(count: () => number, servers: number): Promise<void> {
  while (count() !== servers) await sleep(10)
}

t.test('several servers of one database', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const [one, other] = [await openPostgresStore(url), await openPostgresStore(url, { projectAgeMs: 20 })] as [
    Store,
    Store,
  ]
  t.teardown(() => Promise.all([one.close(), other.close()]))

  t.test('live servers are counted: not those that closed, nor those without a heartbeat', async (t) => {
    await runSql(url, "INSERT INTO ingest.servers VALUES (gen_random_uuid(), now() - interval '8 seconds')")
    const count = one.registerServer?.() ?? t.fail
    const closing = await openPostgresStore(url)
    const countAtOther = closing.registerServer?.() ?? t.fail
    await counts(countAtOther as () => number, 2)
    await counts(count as () => number, 2)
    await closing.close()
    await counts(count as () => number, 1)
    t.strictSame(await runSql(url, 'SELECT count(*)::int AS servers FROM ingest.servers'), [{ servers: 2 }])
  })

  t.test('an event of another server ends a long poll', async (t) => {
    await one.append('p', batchOf('before'))
    const after = await one.lastCursor('p')
    const reader = createIngest({ store: { ...other, close: async () => {} } })
    const events = reader.project('p').readEvents({ after, waitMs: 60_000 })
    const next = events[Symbol.asyncIterator]().next()
    await one.append('p', batchOf('awaited'))
    const { value } = await next
    t.match(String(value?.bytes), /awaited/)
    await reader.close()
  })

  t.test('a key that is revoked at one server ends at the other one', async (t) => {
    const [revoking, cached] = [createIngest({ store: one }), createIngest({ store: other })]
    const { key, record } = await revoking.keys.create('p')
    const credentials = { projectId: 'p', key, scope: 'read' } as const
    t.equal(await cached.authenticate(credentials), true)
    await revoking.keys.revoke('p', record.keyId)
    t.equal(await revoking.authenticate(credentials), false, 'at once where it was revoked')
    while (await cached.authenticate(credentials)) await sleep(10)
  })
})
