import { Worker } from 'node:worker_threads'
import { type ExitGuards, exitGuardAt } from './exit-guard.ts'

/** A message to any thread: close what is open, and end. */
export interface CloseMessage {
  type: 'close'
}

/** A worker thread of a store, as the thread that started it sees it. */
export interface WorkerThread<Incoming> {
  /** `transfer` is detached from this thread. */
  post(message: Incoming | CloseMessage, transfer?: readonly ArrayBuffer[]): void
  /** Resolves with the reason when the thread has ended. Never rejects. */
  ended: Promise<string>
  /** Keeps the process alive until the thread ends; the default. */
  ref(): void
  /** Lets the process end although the thread runs. */
  unref(): void
}

export interface WorkerThreadOptions<Outgoing> {
  /** The module that the thread runs. */
  module: URL
  /** Its `workerData`. */
  data: { guards: ExitGuards }
  /** The slot of its exit guard. */
  slot: number
  onMessage: (message: Outgoing) => void
}

/** Starts a thread. Its module leaves the exit guard once it is not in native code. */
export function startWorkerThread<Incoming, Outgoing>(options: WorkerThreadOptions<Outgoing>): WorkerThread<Incoming> {
  const { module, data, slot, onMessage } = options
  const guard = exitGuardAt(data.guards, slot)
  // before it starts, because it begins by loading LMDB
  guard.enterNative()
  const worker = start()
  let reason = 'no reason is known'
  // without a listener, an error would end the process
  worker.on('error', ({ message }) => {
    reason = message
  })
  const ended = new Promise<string>((resolve) => {
    worker.once('exit', () => {
      guard.leaveNative()
      resolve(reason)
    })
  })
  worker.on('message', onMessage)

  function start(): Worker {
    try {
      // a loader of the host program, which NODE_OPTIONS may name too, must not run in this thread
      return new Worker(module, { workerData: data, execArgv: [], env: {} })
    } catch (error) {
      guard.leaveNative()
      throw error
    }
  }

  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    ended,
    ref: () => worker.ref(),
    unref: () => worker.unref(),
  }
}
