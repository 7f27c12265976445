import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { IngestError } from '@ingest/core'
import { type LockHolder, lockedError, lockTimeoutMs } from '../environment/write-lock.ts'
import { deserializeError } from './error-transfer.ts'
import { type ExitGuard, type ExitGuards, exitGuardAt } from './exit-guard.ts'
import type { LoopRequest, ThreadMessage } from './request-loop.ts'

/** More than this waiting means that the disk cannot keep up: what comes then is refused at once. */
const waitingBytesMax = 64 * 2 ** 20
/** How long a commit that is overdue has for its answer to be read. */
const lastChanceMs = 20
/** How often the holder of the write lock is checked once requests were refused because of it. */
const lockCheckMs = 1000
/** How long the thread may take to end when its commit may never end; then it is left as it is. */
const failedCloseMs = 2000

/** A thread that writes, as others see it. What it resolves with is durable. */
export interface WorkerThread<Request> {
  /**
   * Asks for something. `bytes` is what it counts for while it waits; `transfer` is gone from this thread then.
   *
   * @throws {IngestError} `overloaded`, `disk-full`, `store-locked`, `store-failed`, `store-closed`
   */
  request<Value>(request: Request, bytes: number, transfer?: ArrayBuffer[]): Promise<Value>
  /** Ends everything for a reason that was found elsewhere; what is waiting and what comes is refused with it. */
  fail(error: IngestError): void
  /** Why nothing can be written any more, because something failed. */
  failure(): IngestError | undefined
  /** Why nothing can be written now: something failed, it is closed, or another process does not release the lock. */
  unavailable(): IngestError | undefined
  /** Takes nothing more, and resolves when what was waiting is settled and the thread has ended, or cannot end. */
  close(): Promise<void>
}

export interface WorkerThreadOptions {
  /** The module that the thread runs. */
  worker: URL
  /** What it needs to know for that. */
  data: { guards: ExitGuards }
  /** The place of its guard. */
  slot: number
  /** Runs in this thread, in place of the worker: for tests. */
  run?: (port: MessagePort, guard: ExitGuard) => Promise<void>
  /** Called once when the store can no longer be trusted; everything is refused from then on. */
  onFatal: (error: IngestError) => void
  /** The other process that holds the write lock. */
  lockHolder?: () => LockHolder | undefined
  /** Told what the thread says that is its own. */
  onMessage?: (message: never) => void
  /**
   * A commit that takes longer has failed, unless it waits for another process: after an I/O error it may never return.
   */
  timeoutMs: number
}

interface Waiting {
  bytes: number
  resolve: (value: never) => void
  reject: (error: IngestError) => void
}

/** Starts a thread that writes, and resolves once it is ready to. */
export async function startWorkerThread<Request extends { id: number }>(
  options: WorkerThreadOptions,
): Promise<WorkerThread<Request>> {
  const { onFatal, lockHolder = () => undefined, onMessage = () => {}, timeoutMs } = options
  const { port, ended, hold, letGo } = start<Request>(options)
  const waiting = new Map<number, Waiting>()
  let waitingBytes = 0
  let watchdog: NodeJS.Timeout | undefined
  /** When the thread last showed progress. */
  let progressAt = 0
  let failure: IngestError | undefined
  let locked: IngestError | undefined
  let isReady = false
  let isClosed = false
  let onIdle = () => {}

  function fail(refusal: IngestError): void {
    if (failure) return
    failure = refusal
    for (const { reject } of waiting.values()) reject(refusal)
    waiting.clear()
    rest()
    try {
      onFatal(refusal)
    } catch (error) {
      // the embedder's, and to be seen by the embedder, but not in place of settling what waits
      process.nextTick(() => {
        throw error
      })
    }
  }

  /** Watches the thread from now on. */
  function watch(): void {
    progressAt = performance.now()
    locked = undefined
    judgeIn(Math.min(lockTimeoutMs, timeoutMs))
  }

  function judgeIn(ms: number): void {
    clearTimeout(watchdog)
    // this thread may have been busy: responses that have come by now are read first
    watchdog = setTimeout(() => {
      watchdog = setTimeout(judge, lastChanceMs)
    }, ms)
  }

  /** Refuses what waits for another process that holds the lock; fails the store if its own commit takes too long. */
  function judge(): void {
    const holder = lockHolder()
    const now = performance.now()
    if (holder) {
      progressAt = now
      locked = lockedError(holder)
      // they stay in `waiting`, and count towards its limit, until the thread has settled them
      for (const { reject } of waiting.values()) reject(locked)
      onIdle()
    } else {
      locked = undefined
      if (now - progressAt >= timeoutMs) {
        fail(new IngestError('store-failed', `A commit has not ended within ${timeoutMs} ms.`))
        return
      }
    }
    judgeIn(Math.min(lockCheckMs, timeoutMs))
  }

  function settle({ outcomes }: ThreadMessage & { type: 'settled' }): void {
    // what a thread that was given up has done after all
    if (waiting.size === 0) return
    calm()
    for (const outcome of outcomes) {
      const request = waiting.get(outcome.id)
      if (!request) continue
      waiting.delete(outcome.id)
      waitingBytes -= request.bytes
      if ('value' in outcome) request.resolve(outcome.value as never)
      else {
        const refusal = deserializeError(outcome.error)
        request.reject(refusal)
        if (refusal.code === 'store-failed') fail(refusal)
      }
    }
    if (waiting.size === 0) rest()
  }

  function calm(): void {
    if (waiting.size > 0) watch()
  }

  /** Nobody waits: the thread does not keep the process alive. */
  function rest(): void {
    waitingBytes = 0
    locked = undefined
    clearTimeout(watchdog)
    letGo()
    onIdle()
  }

  function unavailable(): IngestError | undefined {
    return failure ?? (isClosed ? new IngestError('store-closed', 'The store is closed.') : locked)
  }

  const ready = new Promise<void>((resolve, reject) => {
    port.on('message', (message: ThreadMessage) => {
      if (message.type === 'settled') settle(message)
      else if (message.type === 'alive') calm()
      else if (message.type === 'ready') resolve()
      else if (message.type === 'failed') end(deserializeError(message.error))
      else onMessage(message)
    })
    ended.then((reason) => end(new IngestError('store-failed', `A thread that writes has ended: ${reason}.`)))

    function end(reason: IngestError): void {
      reject(reason)
      if (isReady && !isClosed) fail(reason)
    }
  })
  await ready
  isReady = true
  letGo()

  return {
    request(request, bytes, transfer = []) {
      const refused = unavailable()
      if (refused) return Promise.reject(refused)
      if (waitingBytes > 0 && waitingBytes + bytes > waitingBytesMax) {
        return Promise.reject(
          new IngestError('overloaded', `${waitingBytes} bytes wait to be written: send them again in a moment.`, {
            limit: waitingBytesMax,
            actual: waitingBytes + bytes,
            retryAfterSeconds: 1,
          }),
        )
      }
      return new Promise((resolve, reject) => {
        // first, as what cannot be sent is not waited for
        port.postMessage(request, transfer)
        if (waiting.size === 0) {
          hold()
          watch()
        }
        waiting.set(request.id, { bytes, resolve, reject })
        waitingBytes += bytes
      })
    },

    fail,
    failure: () => failure,
    unavailable,

    async close() {
      isClosed = true
      if (waiting.size > 0 && !failure && !locked) {
        await new Promise<void>((resolve) => {
          onIdle = resolve
        })
      }
      hold()
      port.postMessage({ type: 'close' })
      // a thread whose commit never ends does not end either
      const isLeft = Promise.race([ended.then(() => false), sleep(failedCloseMs, true, { ref: false })])
      if (!failure && !locked) await ended
      else if ((await isLeft) && locked) fail(locked)
      letGo()
    },
  }
}

interface Started<Request> {
  port: {
    postMessage(message: LoopRequest<Request>, transfer?: readonly ArrayBuffer[]): void
    on(event: 'message', listener: (message: ThreadMessage) => void): unknown
  }
  /** Why it has ended; never rejects. */
  ended: Promise<string>
  hold(): void
  letGo(): void
}

function start<Request>({ worker: module, data, slot: place, run }: WorkerThreadOptions): Started<Request> {
  if (run) {
    const { port1, port2 } = new MessageChannel()
    run(port2, { enterNative() {}, leaveNative() {} }).then(() => port2.close())
    const ended = new Promise<string>((resolve) => port1.on('close', () => resolve('its port was closed')))
    return { port: port1, ended, hold: () => port1.ref(), letGo: () => port1.unref() }
  }
  const guard = exitGuardAt(data.guards, place)
  // at its birth, as it begins by loading LMDB
  guard.enterNative()
  const worker = new Worker(module, {
    workerData: data,
    // loaders and the like of the host program, which NODE_OPTIONS may name too, are not for this thread
    execArgv: [],
    env: {},
  })
  let reason = 'nobody knows why'
  worker.on('error', ({ message }) => {
    reason = message
  })
  const ended = new Promise<string>((resolve) => {
    worker.once('exit', () => {
      guard.leaveNative()
      resolve(reason)
    })
  })
  return { port: worker, ended, hold: () => worker.ref(), letGo: () => worker.unref() }
}
