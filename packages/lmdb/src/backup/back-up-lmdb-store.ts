import { type JobOptions, runJob } from './run-job.ts'
import { fillDirectory } from './staging.ts'
import { checkReport, type StoreReport } from './store-report.ts'
import { checkStorePresent } from './verify-lmdb-store.ts'

/** The report on a finished backup. */
export interface BackupReport extends Omit<StoreReport, 'problems' | 'problemCount' | 'indexedIds'> {
  /** The size of its files, in bytes. */
  fileBytes: number
}

/**
 * Copies the store in a directory to an empty or missing one, while servers run and write: the log and the maps at one
 * point in the log, without free space and without the id index, which the next opening rebuilds. The copy has its name
 * only once it is verified and durable; before, it is in `<target>.unfinished-…` beside it, which is removed on
 * failure. While it runs, servers keep the space of replaced pages and maps; afterwards they use it again.
 *
 * @throws {IngestError} `store-missing`, `store-incompatible`; `store-damaged` if the store cannot be copied or its
 *   copy is damaged; `invalid-argument` for a target that is not empty or inside the store; `disk-full`;
 *   `store-locked`, `overloaded`, and `store-unavailable` if a signal ended the process that copies, which are temporary
 */
export async function backUpLmdbStore(
  directory: string,
  target: string,
  options: JobOptions = {},
): Promise<BackupReport> {
  checkStorePresent(directory)
  return fillDirectory(directory, target, async (staging) => {
    const { problems, problemCount, indexedIds: _, ...report } = await runJob({ directory, to: staging }, options)
    checkReport(directory, { problems, problemCount })
    return report
  })
}
