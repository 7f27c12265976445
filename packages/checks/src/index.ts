import { eventChecks } from './ingest/events.ts'
import type { IngestCheck } from './ingest/ingest-check.ts'
import { publishingChecks } from './ingest/maps.ts'
import { readingChecks } from './ingest/reading.ts'
import { appendChecks } from './store/append.ts'
import { chunkChecks } from './store/chunks.ts'
import { backupChecks, closeChecks, durableChecks } from './store/durability.ts'
import { durableEraseChecks, eraseChecks, sharedEraseChecks } from './store/erase.ts'
import { freezeChecks } from './store/freeze.ts'
import { sharedChecks } from './store/handles.ts'
import { identityChecks } from './store/identity.ts'
import { mapChecks } from './store/maps.ts'
import { measureChecks } from './store/measure.ts'
import { projectChecks } from './store/projects.ts'
import { raceChecks } from './store/races.ts'
import { readChecks } from './store/read.ts'
import type { DurableStoreCheck, RestoreCheck, SharedStoreCheck, StoreCheck } from './store/store-check.ts'

export type { IngestCheck, OpenIngest } from './ingest/ingest-check.ts'
export {
  type BackUpStore,
  type DurableStoreCheck,
  type OpenAgain,
  type OpenStore,
  type ReopenStore,
  type RestoreCheck,
  type SharedStoreCheck,
  type StoreCheck,
  shareStore,
} from './store/store-check.ts'

/**
 * What every store promises, for any test runner.
 *
 * ```ts
 * import test, { after } from 'node:test'
 * import { shareStore, storeChecks } from '@ingest/checks'
 *
 * const shared = shareStore(openMyStore)
 * for (const { name, isolated, run } of storeChecks) test(name, () => run(isolated ? openMyStore : shared.open))
 * after(shared.close)
 * ```
 */
export const storeChecks: readonly StoreCheck[] = [
  ...appendChecks,
  ...identityChecks,
  ...readChecks,
  ...eraseChecks,
  ...freezeChecks,
  ...projectChecks,
  ...mapChecks,
  ...chunkChecks,
  ...raceChecks,
  ...measureChecks,
  ...closeChecks,
]

/**
 * What a store also promises if several processes may use it at once.
 *
 * ```ts
 * const shared = shareStore(openMyStore, openMyStoreAgain)
 * for (const { name, isolated, run } of sharedStoreChecks)
 *   test(name, () => (isolated ? run(openMyStore, openMyStoreAgain) : run(shared.open, shared.openAgain)))
 * after(shared.close)
 * ```
 */
export const sharedStoreChecks: readonly SharedStoreCheck[] = [...sharedChecks, ...sharedEraseChecks]

/**
 * What a store also promises if it outlives its process.
 *
 * ```ts
 * for (const { name, run } of durableStoreChecks) test(name, () => run(openMyStore, reopenMyStore))
 * ```
 */
export const durableStoreChecks: readonly DurableStoreCheck[] = [...durableChecks, ...durableEraseChecks]

/**
 * What a store also promises if its backups can be restored. If operators may restore a directory by hand, run with
 * that as well.
 *
 * ```ts
 * for (const { name, run } of restoreChecks) test(name, () => run(openMyStore, reopenMyStore, backUpMyStore))
 * ```
 */
export const restoreChecks: readonly RestoreCheck[] = backupChecks

/**
 * What every Ingest promises, for any test runner.
 *
 * ```ts
 * for (const { name, run } of ingestChecks) test(name, () => run(openMyIngest))
 * ```
 */
export const ingestChecks: readonly IngestCheck[] = [...eventChecks, ...readingChecks, ...publishingChecks]
