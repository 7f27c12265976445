import { join } from 'node:path'
import { IngestError } from '@ingest/core'
import { checkDataFile } from '../environment/data-file.ts'
import { checkEventsPresent, findSiblings } from '../environment/identity.ts'
import { checkRestoreFinished } from './restore-lmdb-store.ts'
import { type JobOptions, runJob } from './run-job.ts'
import type { StoreReport } from './store-report.ts'

/**
 * Verifies everything in the directory of a store or of a backup, in a process of its own with a low priority, while
 * servers run. Changes nothing, and reads short snapshots, so that servers can reuse the space that they free. Resolves
 * with the problems.
 *
 * @throws {IngestError} `store-missing`; `store-incompatible` for files that cannot be opened; `store-damaged` if LMDB
 *   crashes over one; `store-locked`, `overloaded`, and `store-unavailable` if a signal ended that process, which are
 *   temporary
 */
export async function verifyLmdbStore(directory: string, options: JobOptions = {}): Promise<StoreReport> {
  checkStorePresent(directory)
  return runJob({ directory }, options)
}

/** @throws {IngestError} `store-missing`, `store-incompatible` */
export function checkStorePresent(directory: string): void {
  checkRestoreFinished(directory)
  const events = join(directory, 'events')
  if (checkDataFile(join(events, 'data.mdb'))) return
  checkEventsPresent(events, findSiblings(directory))
  throw new IngestError('store-missing', `There is no store in ${directory}.`)
}
