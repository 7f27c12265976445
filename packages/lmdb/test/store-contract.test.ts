import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '@ingest/core'
import { durableStoreChecks, restoreChecks, storeChecks } from '@ingest/core/testing'
import t from 'tap'
import { type LmdbStoreOptions, openLmdbStore as openFromSource, restoreLmdbStore } from '../src/index.ts'
import { openLmdbStore } from './built-store.ts'

/** Nearly every id is taken for nearly every other one, over projects too: only what is stored can tell. */
function weakFingerprint(_project: number, eventId: string, into: Uint32Array, at: number): void {
  into[at] = 0
  into[at + 1] = eventId.length % 4
}

/** The ways in which a store may be opened, from source or as it is built; each keeps the same contract. */
const settings: Record<string, [typeof openLmdbStore, LmdbStoreOptions]> = {
  'as it comes': [openFromSource, {}],
  'with runs of a few ids': [openLmdbStore, { internals: { entriesPerFlush: 64 } }],
  'with a hash that knows four fingerprints': [
    openLmdbStore,
    { internals: { entriesPerFlush: 64, fingerprint: weakFingerprint } },
  ],
}

for (const [name, [openStore, options]] of Object.entries(settings)) {
  t.test(`keeps the contract of a store, ${name}`, async (t) => {
    const directories = new Map<Store, string>()
    let count = 0
    const open = async (directory = join(t.testdirName, String(count++))) => {
      const store = await openStore(directory, options)
      directories.set(store, directory)
      return store
    }
    t.testdir()
    for (const check of storeChecks) await t.test(check.name, () => check.run(() => open()))
    for (const check of durableStoreChecks) {
      await t.test(check.name, () =>
        check.run(
          () => open(),
          (closed) => open(directories.get(closed)),
        ),
      )
    }
    const restoreByHand = (backup: string, directory: string) => cpSync(backup, directory, { recursive: true })
    for (const [how, restore] of Object.entries({
      'by hand': restoreByHand,
      'by the function for it': restoreLmdbStore,
    })) {
      const backUp = async (closed: Store) => {
        const directory = directories.get(closed) as string
        const backup = `${directory}-backup`
        cpSync(directory, backup, { recursive: true })
        return async () => {
          rmSync(directory, { recursive: true })
          await restore(backup, directory)
          return open(directory)
        }
      }
      for (const check of restoreChecks) {
        await t.test(`${check.name}, restored ${how}`, () =>
          check.run(
            () => open(),
            (closed) => open(directories.get(closed)),
            backUp,
          ),
        )
      }
    }
  })
}
