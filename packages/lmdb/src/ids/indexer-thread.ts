import { indexerSlot } from '../threads/exit-guard.ts'
import { startWorkerThread, type WorkerThread } from '../threads/worker-thread.ts'
import type { IndexWorkerData, IndexWorkerMessage, WakeMessage } from './index-worker.ts'

/** The thread that flushes and merges. It does not keep the process alive. */
export function createIndexerThread(data: IndexWorkerData, onDamage: (message: string) => void) {
  let thread: WorkerThread<WakeMessage> | undefined
  let isClosing = false
  let lastProblem = ''
  const waiters: (() => void)[] = []

  function notify(): void {
    for (const resolve of waiters.splice(0)) resolve()
  }

  function onMessage(message: IndexWorkerMessage): void {
    if (message.type === 'damaged') onDamage(message.message)
    else if (message.type === 'step-failed') lastProblem = ` (${message.message})`
    notify()
  }

  function start(): void {
    if (thread) return
    const module = new URL('./index-worker.js', import.meta.url)
    thread = startWorkerThread<WakeMessage, IndexWorkerMessage>({ module, data, slot: indexerSlot, onMessage })
    thread.ended.then((reason) => {
      thread = undefined
      if (!isClosing) lastProblem = ` (${reason})`
      notify()
    })
    thread.unref()
  }

  return {
    /** Starts the thread if it does not run. */
    start,
    /** There may be something to flush or merge. Starts the thread if it does not run. */
    wake(): void {
      start()
      // after the transaction that filled a table: the thread cannot read its records before
      setImmediate(() => thread?.post({ type: 'wake' }))
    },
    /** Resolves after the next step of the thread, or after `timeoutMs`. */
    changed(timeoutMs: number): Promise<void> {
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs)
        waiters.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
    /**
     * Why a step has failed, which may be temporary, or the thread has ended, in parentheses; nothing without a
     * problem.
     */
    lastProblem: () => lastProblem,
    /** Ends the thread after its current step. */
    async close(): Promise<void> {
      isClosing = true
      if (!thread) return
      const { ended } = thread
      thread.ref()
      thread.post({ type: 'close' })
      await ended
    },
  }
}
