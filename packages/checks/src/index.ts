import { ingestConsumerChecks } from './ingest/consumers.ts'
import { eventChecks } from './ingest/events.ts'
import type { IngestCheck } from './ingest/ingest-check.ts'
import { publishingChecks } from './ingest/maps.ts'
import { readingChecks } from './ingest/reading.ts'
import { activityChecks, durableActivityChecks, raceActivityChecks } from './store/activity.ts'
import { appendChecks } from './store/append.ts'
import { chunkChecks } from './store/chunks.ts'
import { countChecks } from './store/count.ts'
import { backupChecks, closeChecks, durableChecks } from './store/durability.ts'
import { entryChecks, raceEntryChecks } from './store/entries.ts'
import { durableEraseChecks, eraseChecks, handleEraseChecks, raceEraseChecks } from './store/erase.ts'
import { freezeChecks } from './store/freeze.ts'
import { handleChecks } from './store/handles.ts'
import { identityChecks } from './store/identity.ts'
import { mapChecks } from './store/maps.ts'
import { measureChecks } from './store/measure.ts'
import { raceChecks } from './store/races.ts'
import { readChecks } from './store/read.ts'
import {
  type DurableStoreCheck,
  type RestoreCheck,
  type SharedStoreCheck,
  type StoreCheck,
  withOneHandle,
} from './store/store-check.ts'

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
 * The promises of every store. With `shareStore`, checks that are not isolated use one store.
 *
 * @experimental
 */
export const storeChecks: readonly StoreCheck[] = [
  ...appendChecks,
  ...identityChecks,
  ...readChecks,
  ...eraseChecks,
  ...freezeChecks,
  ...entryChecks,
  ...countChecks,
  ...activityChecks,
  ...mapChecks,
  ...chunkChecks,
  ...[...raceChecks, ...raceEraseChecks, ...raceEntryChecks, ...raceActivityChecks].map(withOneHandle),
  ...measureChecks,
  ...closeChecks,
]

/**
 * The promises of a store that several processes may use at once.
 *
 * @experimental
 */
export const sharedStoreChecks: readonly SharedStoreCheck[] = [
  ...raceChecks,
  ...raceEraseChecks,
  ...raceEntryChecks,
  ...raceActivityChecks,
  ...handleChecks,
  ...handleEraseChecks,
]

/**
 * The promises of a store that outlives its process.
 *
 * @experimental
 */
export const durableStoreChecks: readonly DurableStoreCheck[] = [
  ...durableChecks,
  ...durableEraseChecks,
  ...durableActivityChecks,
]

/**
 * The promises of a store whose backups can be restored, by the store or, if that is allowed, by hand.
 *
 * @experimental
 */
export const restoreChecks: readonly RestoreCheck[] = backupChecks

/** The promises of every Ingest: `for (const { name, run } of ingestChecks) test(name, () => run(openMyIngest))`. */
export const ingestChecks: readonly IngestCheck[] = [
  ...eventChecks,
  ...readingChecks,
  ...ingestConsumerChecks,
  ...publishingChecks,
]
