import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { lowerThreadPriority } from '@ingest/core/internal'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { type ExitGuards, exitGuardAt, indexerSlot } from '../threads/exit-guard.ts'
import type { CloseMessage } from '../threads/worker-thread.ts'
import { createIndexer } from './indexer.ts'
import { createLogReader } from './log-reader.ts'
import { isDamage } from './run.ts'
import { idsOptions, openIdTables } from './run-list.ts'

// The thread that flushes and merges. It has environments of its own: of the log, which it only reads, and of the
// index.

export interface IndexWorkerData {
  directory: string
  /** As {@link Environment} names them. */
  fileIds: string
  logDirectory: string
  logFileIds: string
  seed: string
  entriesPerFlush: number
  guards: ExitGuards
}

/** A message to the thread: there may be something to flush or merge. */
export interface WakeMessage {
  type: 'wake'
}

export type IndexWorkerMessage =
  | { type: 'worked' }
  /** A step failed and will be tried again. */
  | { type: 'step-failed'; message: string }
  /** The index on disk is damaged. */
  | { type: 'damaged'; message: string }

/** Time between attempts while another process works on the runs, or after a step failed. */
const retryMs = 500

// threads that serve requests come first; much lower, other processes of a busy machine would keep appends waiting for
// it
lowerThreadPriority(4)

const data = workerData as IndexWorkerData
const port = parentPort as MessagePort
const guard = exitGuardAt(data.guards, indexerSlot)
const logEnvironment = await openEnvironment(data.logDirectory, { fileIds: data.logFileIds })
const tables = openIdTables(await openIds())
const indexer = createIndexer({
  tables,
  log: createLogReader(logEnvironment, logEnvironment.table('log')),
  seed: data.seed,
  entriesPerFlush: data.entriesPerFlush,
})
let working: Promise<void> | undefined
let isClosing = false

async function openIds(): Promise<Environment> {
  try {
    return await openEnvironment(data.directory, { ...idsOptions, fileIds: data.fileIds })
  } catch (error) {
    await logEnvironment.close()
    throw error
  }
}

function post(message: IndexWorkerMessage): void {
  port.postMessage(message)
}

async function work(): Promise<void> {
  while (!isClosing) {
    const outcome = step()
    if (outcome === 'idle') break
    if (outcome === 'worked') {
      post({ type: 'worked' })
      await nextTurn()
    } else await sleep(retryMs)
  }
}

function step(): 'worked' | 'idle' | 'busy' | 'failed' {
  // a transaction that waits for a stopped process would keep this one from exiting
  if (isLocked()) return 'busy'
  return attempt(() => indexer.step()) ?? 'failed'
}

function isLocked(): boolean {
  return tables.environment.lockHolder()?.isStopped ?? false
}

function attempt<T>(run: () => T): T | undefined {
  guard.enterNative()
  try {
    return run()
  } catch (error) {
    post({ type: isDamage(error) ? 'damaged' : 'step-failed', message: (error as Error).message })
    return undefined
  } finally {
    guard.leaveNative()
  }
}

async function close(): Promise<void> {
  isClosing = true
  await working
  if (!isLocked()) attempt(() => indexer.release())
  guard.enterNative()
  await tables.environment.close()
  await logEnvironment.close()
  port.close()
}

port.on('message', ({ type }: WakeMessage | CloseMessage) => {
  if (type === 'close') close()
  else {
    working ??= work().finally(() => {
      working = undefined
    })
  }
})

guard.leaveNative()
