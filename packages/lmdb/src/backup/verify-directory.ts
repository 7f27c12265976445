import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openEnvironment } from '../environment/environment.ts'
import { hasChunksFile, openChunksToRead, openIdentity } from '../environment/identity.ts'
import { openIndexCheck } from './check-index.ts'
import { checkLog } from './check-log.ts'
import { checkMaps } from './check-maps.ts'
import { emptyReport, type StoreReport } from './store-report.ts'

/** The progress of a verification. */
export interface VerifyProgress {
  phase: 'log' | 'maps'
  /** Verified records, or bytes of chunks. */
  done: number
  /** Undefined if the total is not known. */
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
  const environment = await openEnvironment(eventsDirectory, { readOnly: true })
  try {
    const identity = openIdentity(environment, eventsDirectory, [directory])
    const { hashKey } = identity
    const index = await openIndexCheck(join(directory, 'ids'), hashKey.toString('hex'), report)
    const onSlice = (done: number, total: number) => show({ phase: 'log', done, total })
    await checkLog({ environment, hashKey, report, index, onSlice }).finally(index.close)
    if (!hasChunksFile(environment, directory)) return report
    const chunkEnvironment = await openChunksToRead(environment, directory, identity)
    if (!chunkEnvironment) return report
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
    await environment.close()
  }
}

function createThrottle(onProgress: (progress: VerifyProgress) => void) {
  let shownAt = performance.now()
  return async (progress: VerifyProgress) => {
    if (performance.now() - shownAt < progressIntervalMs) return
    shownAt = performance.now()
    onProgress(progress)
    // lets the progress message be sent
    await nextTurn()
  }
}
