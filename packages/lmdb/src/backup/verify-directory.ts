import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { checkDataFile } from '../environment/data-file.ts'
import { openEnvironment } from '../environment/environment.ts'
import { openChunks, openIdentity } from '../environment/identity.ts'
import { readIndex } from './check-index.ts'
import { checkLog } from './check-log.ts'
import { checkMaps } from './check-maps.ts'
import { emptyReport, type StoreReport } from './store-report.ts'

/** How far verifying is. */
export interface VerifyProgress {
  phase: 'index' | 'log' | 'maps'
  /** Ids, records, or bytes of chunks. */
  done: number
  /** Undefined if it is not known. */
  total?: number
}

const progressIntervalMs = 200

/** Verifies the store in a directory, in this process, which LMDB may crash over a damaged file. Writes nothing. */
export async function verifyDirectory(
  directory: string,
  onProgress: (progress: VerifyProgress) => void,
): Promise<StoreReport> {
  const report = emptyReport()
  const show = createThrottle(onProgress)
  const eventsDirectory = join(directory, 'events')
  const environment = openEnvironment(eventsDirectory)
  try {
    const identity = openIdentity(environment, eventsDirectory, [directory])
    const seed = identity.hashKey.toString('hex')
    let ids = 0
    const indexed = await readIndex(join(directory, 'ids'), seed, report, async (count) => {
      ids += count
      await show({ phase: 'index', done: ids })
    })
    const hashKey = identity.hashKey
    const onSlice = (done: number, total: number) => show({ phase: 'log', done, total })
    await checkLog({ environment, hashKey, report, indexed, onSlice })
    if (!checkDataFile(join(directory, 'chunks', 'data.mdb'))) return report
    const chunkEnvironment = await openChunks(environment, directory, identity)
    let bytes = 0
    await checkMaps({
      environment,
      chunkEnvironment,
      report,
      async onSlice(more) {
        bytes += more
        await show({ phase: 'maps', done: bytes })
      },
    }).finally(() => chunkEnvironment.close())
    return report
  } finally {
    environment.close()
  }
}

function createThrottle(onProgress: (progress: VerifyProgress) => void) {
  let shownAt = performance.now()
  return async (progress: VerifyProgress) => {
    if (performance.now() - shownAt < progressIntervalMs) return
    shownAt = performance.now()
    onProgress(progress)
    // lets the message leave
    await nextTurn()
  }
}
