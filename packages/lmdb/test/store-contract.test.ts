import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '@ingest/core'
import { durableStoreChecks, restoreChecks, shareStore, storeChecks } from '@ingest/core/testing'
import { restoreLmdbStore } from '@ingest/lmdb'
import { type LmdbStoreInternals, openLmdbStoreWith } from '@ingest/lmdb/internal'
import t from 'tap'

/** Nearly every id has the fingerprint of nearly every other one, over projects too: only the log tells them apart. */
function weakFingerprint(_project: number, eventId: string, into: Uint32Array, at: number): void {
  into[at] = 0
  into[at + 1] = eventId.length % 4
}

const variants: Record<string, LmdbStoreInternals> = {
  'by default': {},
  'with runs of a few ids': { entriesPerFlush: 64 },
  'with a hash of four fingerprints': { entriesPerFlush: 64, fingerprint: weakFingerprint },
}

for (const [name, internals] of Object.entries(variants)) {
  t.test(`keeps the contract of a store, ${name}`, async (t) => {
    const directories = new Map<Store, string>()
    let count = 0
    const open = async (directory = join(t.testdirName, String(count++))) => {
      const store = await openLmdbStoreWith(directory, {}, internals)
      directories.set(store, directory)
      return store
    }
    const reopen = (closed: Store) => open(directories.get(closed))
    t.testdir()
    const shared = shareStore(() => open())
    for (const { name, isolated, run } of storeChecks) {
      await t.test(name, () => run(isolated ? () => open() : shared.open))
    }
    await shared.close()
    for (const { name, run } of durableStoreChecks) await t.test(name, () => run(() => open(), reopen))
    const restoreByHand = (backup: string, directory: string) => cpSync(backup, directory, { recursive: true })
    for (const [how, restore] of Object.entries({
      'by hand': restoreByHand,
      'by restoreLmdbStore': restoreLmdbStore,
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
      for (const { name, run } of restoreChecks) {
        await t.test(`${name}, restored ${how}`, () => run(() => open(), reopen, backUp))
      }
    }
  })
}
