import { Worker } from 'node:worker_threads'
import { type ExitGuards, exitGuardAt, indexerSlot } from '../threads/exit-guard.ts'

/** What the worker needs to know. */
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

/** What the worker says. */
export type FromIndexWorker =
  /** The filter of the run with this nonce, which is about to be published. */
  | { type: 'filter'; nonce: number; words: Uint32Array }
  | { type: 'worked' }
  /** The disk refuses, which may pass, or what is on it is damaged. */
  | { type: 'failed'; message: string; damaged: boolean }

/** What it is told. */
export type ToIndexWorker = 'wake' | 'close'

export interface IndexWorkerListener {
  onFilter(nonce: number, words: Uint32Array): void
  onDamage(message: string): void
  /** Something went wrong, which may pass. */
  onTrouble(message: string): void
  /** The thread has ended, asked or not. */
  onEnd(): void
}

/** The thread that flushes and merges. */
export interface IndexWorker {
  /** There may be something to do. */
  wake(): void
  /** Resolves when it has done something, or after so many milliseconds. */
  changed(timeoutMs: number): Promise<void>
  /** Ends it, after the step that it is in. */
  close(): Promise<void>
}

/** Starts the thread; it does not keep the process alive. */
export function startIndexWorker(data: IndexWorkerData, listener: IndexWorkerListener): IndexWorker {
  const guard = exitGuardAt(data.guards, indexerSlot)
  // at its birth, as it begins by loading LMDB
  guard.enterNative()
  const worker = new Worker(new URL('./index-worker.js', import.meta.url), {
    workerData: data,
    // loaders and the like of the host program, which NODE_OPTIONS may name too, are not for this thread
    execArgv: [],
    env: {},
  })
  let waiting: (() => void)[] = []
  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      guard.leaveNative()
      listener.onEnd()
      notify()
      resolve()
    })
  })

  function notify(): void {
    const all = waiting
    waiting = []
    for (const resolve of all) resolve()
  }

  worker.on('message', (message: FromIndexWorker) => {
    if (message.type === 'filter') listener.onFilter(message.nonce, message.words)
    else if (message.type === 'failed') {
      if (message.damaged) listener.onDamage(message.message)
      else listener.onTrouble(message.message)
      notify()
    } else notify()
  })
  // what ends it is told by its exit; without a listener it would end the process
  worker.on('error', ({ message }) => listener.onTrouble(message))
  // last, because listening takes a hold of the process again
  worker.unref()
  return {
    wake: () => worker.postMessage('wake' satisfies ToIndexWorker),
    changed(timeoutMs) {
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs)
        waiting.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
    async close() {
      worker.ref()
      worker.postMessage('close' satisfies ToIndexWorker)
      await ended
    },
  }
}
