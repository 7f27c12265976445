import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { durableStoreChecks, shareStore, storeChecks } from '@ingest/checks'
import type { Store } from '@ingest/core'
import { type LmdbStoreInternals, openLmdbStoreWith } from '@ingest/lmdb/internal'
import type { Test } from 'tap'
import { openInProcess } from './process-handle.ts'

/** Opens stores in directories of a test, and again in the directory of a closed one. */
export function storesOf(t: Test, internals: LmdbStoreInternals) {
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

export async function checkShared(t: Test, { open }: Stores, checks = storeChecks): Promise<void> {
  const shared = shareStore(open)
  for (const { name, isolated, run } of checks) if (!isolated) await t.test(name, () => run(shared.open))
  await shared.close()
}

export async function checkDurable(t: Test, { open, reopen }: Stores): Promise<void> {
  for (const { name, run } of durableStoreChecks) await t.test(name, () => run(open, reopen))
}
