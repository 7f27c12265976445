import { indexerSlot } from '../threads/exit-guard.ts'
import { startWorkerThread, type WorkerThread } from '../threads/worker-thread.ts'
import type { IndexWorkerData, IndexWorkerMessage, WakeMessage } from './index-worker.ts'

/** The thread that flushes and merges. It does not keep the process alive. */
export interface IndexerThread {
  /** Starts the thread if it does not run. */
  start(): void
  /** There may be something to flush or merge. Starts the thread if it does not run. */
  wake(): void
  /** Resolves after the next step of the thread, or after `timeoutMs`. */
  changed(timeoutMs: number): Promise<void>
  /** Ends the thread after its current step. */
  close(): Promise<void>
}

export interface IndexerThreadListener {
  onDamage(message: string): void
  /** A step failed, which may be temporary, or the thread has ended unexpectedly. */
  onProblem(message: string): void
}

export function createIndexerThread(data: IndexWorkerData, listener: IndexerThreadListener): IndexerThread {
  let thread: WorkerThread<WakeMessage> | undefined
  let isClosing = false
  let waiters: (() => void)[] = []

  function notify(): void {
    const all = waiters
    waiters = []
    for (const resolve of all) resolve()
  }

  function onMessage(message: IndexWorkerMessage): void {
    if (message.type === 'damaged') listener.onDamage(message.message)
    else if (message.type === 'step-failed') listener.onProblem(message.message)
    notify()
  }

  function startThread(): WorkerThread<WakeMessage> {
    const module = new URL('./index-worker.js', import.meta.url)
    const started = startWorkerThread<WakeMessage, IndexWorkerMessage>({ module, data, slot: indexerSlot, onMessage })
    started.ended.then((reason) => {
      thread = undefined
      if (!isClosing) listener.onProblem(reason)
      notify()
    })
    started.unref()
    return started
  }

  return {
    start() {
      thread ??= startThread()
    },
    wake() {
      thread ??= startThread()
      // after the transaction that filled a table: the thread cannot read its records before
      setImmediate(() => thread?.post({ type: 'wake' }))
    },
    changed(timeoutMs) {
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs)
        waiters.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
    async close() {
      isClosing = true
      if (!thread) return
      const { ended } = thread
      thread.ref()
      thread.post({ type: 'close' })
      await ended
    },
  }
}
