import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { openEnvironment } from '../environment/environment.ts'
import { gateAt, indexerGate } from '../threads/exit-guard.ts'
import { standBack } from '../threads/thread-priority.ts'
import { isDamage } from './id-index.ts'
import type { FromIndexWorker, IndexWorkerData, ToIndexWorker } from './index-worker-handle.ts'
import { createIndexer } from './indexer.ts'
import { createLogReader } from './log-reader.ts'
import { openIdTables } from './run-list.ts'

// The thread that flushes and merges. It has handles of its own on the log, which it only reads, and on the index.

/** While another process works on the runs, or the disk refuses, look again after so long. */
const retryMs = 500

// those who serve requests come first
standBack(10)

const { directory, files, logDirectory, logFiles, seed, entriesPerFlush, gates } = workerData as IndexWorkerData
const gate = gateAt(gates, indexerGate)
const logEnvironment = openEnvironment(logDirectory, { files: logFiles })
const tables = openIdTables(openEnvironment(directory, { files }))
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
  gate.enter()
  try {
    return work()
  } catch (error) {
    say({ type: 'failed', message: (error as Error).message, damaged: isDamage(error) })
    return undefined
  } finally {
    gate.leave()
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
    gate.enter()
    await tables.environment.root.close()
    await logEnvironment.root.close()
    parentPort?.close()
  }
})

gate.leave()
