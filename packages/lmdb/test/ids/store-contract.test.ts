import { cpSync } from 'node:fs'
import { restoreChecks, storeChecks } from '@ingest/checks'
import t from 'tap'
import { checkDurable, checkShared, storesOf } from '../contract-stores.ts'

/** The checks that depend on the id index; the others use it in the same ways, or not at all. */
const idChecks = storeChecks.filter(({ name }) => /\bids?\b|known|append|twice|again|stored before|cursor/.test(name))

t.test('the store keeps the contract with runs of a few ids, and restored by hand', async (t) => {
  const stores = storesOf(t, { entriesPerFlush: 64 })
  await checkShared(t, stores, idChecks)
  await checkDurable(t, stores)
  const backUp = stores.backUpWith((backup, directory) => cpSync(backup, directory, { recursive: true }))
  for (const { name, run } of restoreChecks) await t.test(name, () => run(stores.open, stores.reopen, backUp))
})

t.test('the store keeps the contract with a hash of 64 fingerprints', async (t) => {
  // every id has the fingerprint of many others, over projects too: only the log distinguishes them
  await checkShared(t, storesOf(t, { entriesPerFlush: 64, fingerprintBits: 6 }), idChecks)
})
