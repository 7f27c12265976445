import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from '../environment/environment.ts'
import { exitGuardAt, indexerSlot } from '../threads/exit-guard.ts'
import { lowerThreadPriority } from '../threads/thread-priority.ts'
import { isDamage } from './id-index.ts'
import type { FromIndexWorker, IndexWorkerData, ToIndexWorker } from './index-worker-handle.ts'
import { createIndexer } from './indexer.ts'
import { createLogReader } from './log-reader.ts'
import { openIdTables } from './run-list.ts'

// The thread that flushes and merges. It has handles of its own on the log, which it only reads, and on the index.

/** While another process works on the runs, or the disk refuses, look again after so long. */
const retryMs = 500

// those who serve requests come first
lowerThreadPriority(10)

const {
  directory,
  fileIds: files,
  logDirectory,
  logFileIds: logFiles,
  seed,
  entriesPerFlush,
  guards,
} = workerData as IndexWorkerData
const guard = exitGuardAt(guards, indexerSlot)
const logEnvironment = openEnvironment(logDirectory, { fileIds: logFiles })
const tables = openIdTables(openEnvironment(directory, { fileIds: files }))
const indexer = createIndexer({
  tables,
  log: createLogReader(logEnvironment, logEnvironment.table('log')),
  seed,
  entriesPerFlush,
  onFilter: ({ nonce }, words) => say({ type: 'filter', nonce, words }),
})
let working: Promise<void> | undefined
let closing = false

function say(message: FromIndexWorker): void {
  parentPort?.postMessage(message)
}

async function work(): Promise<void> {
  while (!closing) {
    const outcome = step()
    if (outcome === 'idle') break
    if (outcome === 'worked') {
      say({ type: 'worked' })
      await nextTurn()
    } else await sleep(retryMs)
  }
}

function step(): 'worked' | 'idle' | 'busy' | 'failed' {
  // a transaction that waits for a stopped process would keep this one from ending
  if (isLocked()) return 'busy'
  return attempt(() => indexer.step()) ?? 'failed'
}

function isLocked(): boolean {
  return tables.environment.lockHolder()?.isStopped ?? false
}

function attempt<T>(work: () => T): T | undefined {
  guard.enterNative()
  try {
    return work()
  } catch (error) {
    say({ type: 'failed', message: (error as Error).message, damaged: isDamage(error) })
    return undefined
  } finally {
    guard.leaveNative()
  }
}

parentPort?.on('message', async (message: ToIndexWorker) => {
  if (message === 'wake') {
    working ??= work().finally(() => {
      working = undefined
    })
  } else {
    closing = true
    await working
    if (!isLocked()) attempt(() => indexer.release())
    guard.enterNative()
    await tables.environment.root.close()
    await logEnvironment.root.close()
    parentPort?.close()
  }
})

guard.leaveNative()
