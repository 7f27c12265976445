import { restoreChecks, sharedStoreChecks, shareStore, storeChecks } from '@ingest/checks'
import { restoreLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { checkDurable, checkShared, storesOf } from './contract-stores.ts'

t.test('the store keeps the contract', async (t) => {
  const stores = storesOf(t, {})
  await checkShared(t, stores)
  for (const { name, isolated, run } of storeChecks) if (isolated) await t.test(name, () => run(stores.open))
  await checkDurable(t, stores)
  const backUp = stores.backUpWith(restoreLmdbStore)
  for (const { name, run } of restoreChecks) await t.test(name, () => run(stores.open, stores.reopen, backUp))
})

t.test('the store keeps the contract between processes', async (t) => {
  const { open, openInProcess } = storesOf(t, {})
  const shared = shareStore(open, openInProcess)
  for (const { name, isolated, run } of sharedStoreChecks) {
    await t.test(name, () => (isolated ? run(open, openInProcess) : run(shared.open, shared.openAgain)))
  }
  await shared.close()
})
