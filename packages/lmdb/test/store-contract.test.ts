import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { durableStoreChecks, restoreChecks, sharedStoreChecks, shareStore, storeChecks } from '@ingest/checks'
import type { Store } from '@ingest/core'
import { restoreLmdbStore } from '@ingest/lmdb'
import { type LmdbStoreInternals, openLmdbStoreWith } from '@ingest/lmdb/internal'
import t, { type Test } from 'tap'
import { openInProcess } from './process-handle.ts'

/** Opens stores in directories of a test, and again in the directory of a closed one. */
function storesOf(t: Test, internals: LmdbStoreInternals) {
  const directories = new Map<Store, string>()
  let count = 0

  async function openIn(directory: string): Promise<Store> {
    const store = await openLmdbStoreWith(directory, {}, internals)
    directories.set(store, directory)
    return store
  }

  t.testdir()
  return {
    open: () => openIn(join(t.testdirName, String(count++))),
    openInProcess: (store: Store) => openInProcess(directories.get(store) as string),
    reopen: (closed: Store) => openIn(directories.get(closed) as string),
    /** Takes backups, with which `restore` replaces the store. */
    backUpWith(restore: (backup: string, directory: string) => unknown) {
      return async (closed: Store) => {
        const directory = directories.get(closed) as string
        const backup = `${directory}-backup`
        cpSync(directory, backup, { recursive: true })
        return async () => {
          rmSync(directory, { recursive: true })
          await restore(backup, directory)
          return openIn(directory)
        }
      }
    },
  }
}

type Stores = ReturnType<typeof storesOf>

/** The checks that depend on the id index; the others use it in the same ways, or not at all. */
const idChecks = storeChecks.filter(({ name }) => /\bids?\b|known|append|twice|again|stored before|cursor/.test(name))

async function checkShared(t: Test, { open }: Stores, checks = storeChecks): Promise<void> {
  const shared = shareStore(open)
  for (const { name, isolated, run } of checks) if (!isolated) await t.test(name, () => run(shared.open))
  await shared.close()
}

async function checkDurable(t: Test, { open, reopen }: Stores): Promise<void> {
  for (const { name, run } of durableStoreChecks) await t.test(name, () => run(open, reopen))
}

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
