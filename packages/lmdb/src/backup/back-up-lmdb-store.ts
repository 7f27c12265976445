import { type JobOptions, runJob } from './run-job.ts'
import { fillDirectory } from './staging.ts'
import { checkReport, type StoreReport } from './store-report.ts'
import { checkStorePresent } from './verify-lmdb-store.ts'

/** A backup that has its name. */
export interface BackupReport extends Omit<StoreReport, 'problems' | 'problemCount' | 'indexedIds'> {
  /** The size of its files. */
  fileBytes: number
}

/**
 * Copies the store in a directory to an empty or missing one, while servers run and write: the log and the maps at one
 * point in the log, without free space and without the id index, which the next opening rebuilds. The copy has its name
 * only once it is verified and durable; before, it is in `<target>.unfinished-…` beside it, which is removed on failure.
 * While it runs, servers keep the space of replaced pages and maps; afterwards they use it again.
 *
 * @throws {IngestError} `store-missing`, `store-incompatible`; `store-damaged` if the store cannot be copied or its copy
 *   is damaged; `invalid-argument` for a target that is not empty or inside the store; `disk-full`; `store-locked` and
 *   `overloaded`, which are temporary
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
<<<<<<< HEAD
    return report
  })
=======
    const fileBytes = await syncCopy(staging)
    options.signal?.throwIfAborted()
    await giveName(staging, target)
    return { ...report, fileBytes }
  } catch (error) {
    await rm(staging, { recursive: true, force: true })
    throw error
  }
}

function checkTarget(directory: string, target: string): void {
  if (existsSync(target) && !(statSync(target).isDirectory() && readdirSync(target).length === 0)) {
    throw new IngestError('invalid-argument', `${target} is not an empty directory: name another one.`)
  }
  const path = relative(realpathSync(directory), realPath(target))
  if (path === '' || !(path === '..' || path.startsWith(`..${sep}`) || resolve(path) === path)) {
    throw new IngestError('invalid-argument', `${target} is inside of the store: name a directory elsewhere.`)
  }
}

/** The path without symbolic links, of which the last parts may be missing. */
function realPath(path: string): string {
  const absolute = resolve(path)
  if (existsSync(absolute)) return realpathSync(absolute)
  const parent = dirname(absolute)
  return parent === absolute ? absolute : join(realPath(parent), basename(absolute))
}

/** Makes a copy durable; returns the size of its files, in bytes. */
async function syncCopy(staging: string): Promise<number> {
  let bytes = 0
  for (const name of readdirSync(staging)) {
    // of the processes that verified it
    rmSync(join(staging, name, 'lock.mdb'), { force: true })
    await syncPath(join(staging, name, 'data.mdb'))
    await syncPath(join(staging, name))
    bytes += statSync(join(staging, name, 'data.mdb')).size
  }
  await syncPath(staging)
  return bytes
}

async function giveName(staging: string, target: string): Promise<void> {
  try {
    // replaces an empty directory, except on Windows
    if (process.platform === 'win32' && existsSync(target)) rmSync(target, { recursive: false })
    await rename(staging, target)
  } catch (cause) {
    throw new IngestError('invalid-argument', `${target} was created meanwhile: ${(cause as Error).message}.`, {
      cause,
    })
  }
  await syncPath(dirname(resolve(target)))
>>>>>>> ops
}
