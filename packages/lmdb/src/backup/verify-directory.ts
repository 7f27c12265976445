import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { hasChunksFile, openChunksToRead, openIdentity } from '../environment/identity.ts'
import { readIndex } from './check-index.ts'
import { checkLog } from './check-log.ts'
import { checkMaps } from './check-maps.ts'
import { checkPages } from './check-pages.ts'
import { emptyReport, type StoreReport } from './store-report.ts'

/** How far verifying is. */
export interface VerifyProgress {
  phase: 'index' | 'log' | 'maps' | 'pages'
  /** Ids, records, bytes of chunks, or pages. */
  done: number
  /** Undefined if it is not known. */
  total?: number
}

const progressIntervalMs = 200
const remedy =
  'They may hold bytes of erased events. `ingest backup` and then `ingest restore` make a directory without them'

/** Verifies the store in a directory, in this process, which LMDB may crash over a damaged file. Writes nothing. */
export async function verifyDirectory(
  directory: string,
  onProgress: (progress: VerifyProgress) => void,
): Promise<StoreReport> {
  const report = emptyReport()
  const show = createThrottle(onProgress)
  let pages = 0
  const countPagesOf = (name: string, environment: Environment) =>
    checkPages({
      environment,
      directory: join(directory, name),
      report,
      part: 'pages',
      remedy,
      async onSlice(more) {
        pages += more
        await show({ phase: 'pages', done: pages })
      },
    })
  const eventsDirectory = join(directory, 'events')
  const environment = await openEnvironment(eventsDirectory, { readOnly: true })
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
    await countPagesOf('events', environment)
    if (!hasChunksFile(environment, directory)) return report
    const chunkEnvironment = await openChunksToRead(environment, directory, identity)
    if (!chunkEnvironment) return report
    let bytes = 0
    await countPagesOf('chunks', chunkEnvironment)
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
    // lets the message leave
    await nextTurn()
  }
}
