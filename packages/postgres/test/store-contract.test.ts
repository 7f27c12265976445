import { durableStoreChecks, restoreChecks, sharedStoreChecks, shareStore, storeChecks } from '@ingest/checks'
import type { Store } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { migratePostgres } from '../src/schema/migrate.ts'
import {
  copyDatabase,
  createDatabase,
  createForRoles,
  dropDatabase,
  nameOf,
  noPostgres,
  openTestServer,
  runSql,
} from './database.ts'

/** Opens stores, each in its own database, and again in the database of a closed store. */
function openStores() {
  const urls = new Map<Store, string>()

  async function openAt(url: string): Promise<Store> {
    const store = await openPostgresStore(url)
    urls.set(store, url)
    return store
  }

  return {
    openAt,
    open: async () => openAt(await createDatabase()),
    reopen: (closed: Store) => openAt(urls.get(closed) as string),

    /** Another store on the same database. */
    openAgain: (store: Store) => openAt(urls.get(store) as string),

    async backUp(closed: Store) {
      const url = urls.get(closed) as string
      const backup = await copyDatabase(url)
      return async () => {
        await dropDatabase(url)
        await copyDatabase(backup, url)
        await dropDatabase(backup)
        await migratePostgres(url, { newEpoch: true })
        return openAt(url)
      }
    },
  }
}

t.test('the store keeps the contract as a role that may only call functions', { skip: noPostgres }, async (t) => {
  const open = async () => openPostgresStore((await createForRoles()).asServer, { migrate: false })
  const shared = shareStore(open)
  for (const { name, isolated, run } of storeChecks) await t.test(name, () => run(isolated ? open : shared.open))
  await shared.close()
})

t.test('the store keeps the contract of stores that outlive their process', { skip: noPostgres }, async (t) => {
  const { open, reopen, backUp } = openStores()
  for (const { name, run } of durableStoreChecks) await t.test(name, () => run(open, reopen))
  for (const { name, run } of restoreChecks) await t.test(name, () => run(open, reopen, backUp))
})

t.test('several stores on one database keep the contract, without a deadlock', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  await runSql(url, `ALTER DATABASE ${nameOf(url)} SET deadlock_timeout = '10ms'`)
  const { open, openAt, openAgain } = openStores()
  const shared = shareStore(() => openAt(url), openAgain)
  for (const { name, isolated, run } of sharedStoreChecks) {
    await t.test(name, () => (isolated ? run(open, openAgain) : run(shared.open, shared.openAgain)))
  }
  await shared.close()
  t.equal(await countDeadlocks(url), 0)
})

/** Waits until all sessions have ended, because they report their deadlocks then. */
async function countDeadlocks(url: string): Promise<number> {
  const sql = 'SELECT d.deadlocks::int, d.numbackends FROM pg_stat_database d WHERE d.datname = $1'
  for (;;) {
    const [row] = await runSql<{ deadlocks: number; numbackends: number }>(await openTestServer(), sql, [nameOf(url)])
    if (row?.numbackends === 0) return row.deadlocks
  }
}
