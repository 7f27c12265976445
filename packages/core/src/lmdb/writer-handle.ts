import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel, Worker } from 'node:worker_threads'
import { IngestError } from '../error.ts'
import type { Appended } from './appender.ts'
import { type Change, record } from './change.ts'
import type { Environment, Rows } from './environment.ts'
import { gateAt, writerGate } from './gates.ts'
import type { Position } from './ids/entry.ts'
import type { RebuildProgress } from './ids/id-index.ts'
import { toError } from './refusal.ts'
import { type FromWriter, runWriter, type ToWriter, type WriterData } from './writer.ts'

/** More than this waiting means that the disk cannot keep up: what comes then is refused at once. */
const waitingBytesMax = 64 * 2 ** 20
/** How long the thread may take to end after the store has failed; then it is left as it is. */
const failedCloseMs = 2000

/** The writer of this process, as others see it. What it resolves with is durable. */
export interface Writer {
  /**
   * @param record the record that it will be if all of it is new; it is gone from this thread then
   * @throws {IngestError} `overloaded`, `disk-full`, `store-failed`, `store-closed`
   */
  append(project: number, record: Buffer, builds: string[]): Promise<Appended>
  /** Where the events with these ids stand, by all that was committed when it was called. */
  locate(project: number, eventIds: string[], fingerprints: Uint32Array): Promise<(Position | undefined)[]>
  /**
   * Reads, decides and writes in one step, over all processes. `decide` is called again when something that it has read
   * was changed meanwhile; what it throws is what this rejects with, and nothing is written then.
   */
  decide<T>(decide: (table: (name: string) => Rows) => T): Promise<T>
  /** Ends everything for a reason that was found elsewhere; what is waiting and what comes is refused with it. */
  fail(refusal: IngestError): void
  /** Why nothing can be written any more. */
  failure(): IngestError | undefined
  /** Takes nothing more, and resolves when what was waiting is settled and the writer has ended, or cannot end. */
  close(): Promise<void>
}

export interface WriterOptions {
  environment: Environment
  data: WriterData
  /** Called once when the store can no longer be trusted; everything is refused from then on. */
  onFatal: (error: IngestError) => void
  onProgress: (progress: RebuildProgress) => void
  /** Freezing a build has left bytes that nothing needs any more. */
  onWaste: () => void
  /** Whoever waits longer waits for a commit that never ends, as LMDB's do after an I/O error. */
  timeoutMs: number
}

interface Waiting {
  bytes: number
  resolve: (value: never) => void
  reject: (error: IngestError) => void
}

interface Undecided {
  decide(table: (name: string) => Rows): unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
}

/** Starts the thread that writes, and resolves once it has caught up with the log. */
export async function startWriter(options: WriterOptions): Promise<Writer> {
  const { environment, data, onFatal, onProgress, onWaste, timeoutMs } = options
  const { port, ended, hold, letGo } = startThread(environment, data)
  const waiting = new Map<number, Waiting>()
  let waitingBytes = 0
  let lastId = 0
  let watchdog: NodeJS.Timeout | undefined
  let failure: IngestError | undefined
  let isReady = false
  let isClosed = false
  let onIdle = () => {}
  let undecided: Undecided[] = []
  let isDeciding = false

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

  function settle({ outcomes }: FromWriter & { type: 'settled' }): void {
    // what a thread that was given up has done after all
    if (waiting.size === 0) return
    watchdog?.refresh()
    for (const outcome of outcomes) {
      const request = waiting.get(outcome.id)
      if (!request) continue
      waiting.delete(outcome.id)
      waitingBytes -= request.bytes
      if ('value' in outcome) request.resolve(outcome.value as never)
      else {
        const refusal = toError(outcome.refusal)
        request.reject(refusal)
        if (refusal.code === 'store-failed') fail(refusal)
      }
    }
    if (waiting.size === 0) rest()
  }

  /** Nobody waits: the thread does not keep the process alive. */
  function rest(): void {
    waitingBytes = 0
    clearTimeout(watchdog)
    letGo()
    onIdle()
  }

  function send<T>(message: ToWriter & { id: number }, bytes: number, transfer: ArrayBuffer[] = []): Promise<T> {
    if (failure) return Promise.reject(failure)
    if (isClosed) return Promise.reject(closed())
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
      port.postMessage(message, transfer)
      if (waiting.size === 0) {
        hold()
        watchdog = setTimeout(() => {
          fail(new IngestError('store-failed', `A commit has not ended within ${timeoutMs} ms.`))
        }, timeoutMs)
      }
      waiting.set(message.id, { bytes, resolve, reject })
      waitingBytes += bytes
    })
  }

  /** One group after another: decisions of one process on the same rows would lose races to each other. */
  async function decideAll(): Promise<void> {
    isDeciding = true
    while (undecided.length > 0) {
      const group = undecided
      undecided = []
      await decideTogether(group)
    }
    isDeciding = false
  }

  /** Makes decisions in one step, each on what those before it have written. */
  async function decideTogether(group: Undecided[]): Promise<void> {
    let left = group
    try {
      while (left.length > 0) {
        if (failure) throw failure
        if (isClosed) throw closed()
        environment.root.resetReadTxn()
        const results: unknown[] = []
        const { result: thrower, change } = record(environment.table, (table) => {
          for (const each of left) {
            try {
              results.push(each.decide(table))
            } catch (error) {
              each.reject(error)
              return each
            }
          }
          return undefined
        })
        // what it may have written before it threw is in this change, so the others decide anew
        if (thrower) left = left.filter((each) => each !== thrower)
        else if (change.rows.length === 0 || (await sendChange(change))) {
          for (const [i, { resolve }] of left.entries()) resolve(results[i] as never)
          return
        }
      }
    } catch (error) {
      for (const { reject } of left) reject(error)
    }
  }

  function sendChange(change: Change): Promise<boolean> {
    const bytes = change.rows.reduce((sum, { value }) => sum + (value?.length ?? 0), 0)
    return send<boolean>({ type: 'change', id: ++lastId, ...change }, bytes)
  }

  const ready = new Promise<void>((resolve, reject) => {
    port.on('message', (message: FromWriter) => {
      if (message.type === 'settled') settle(message)
      else if (message.type === 'waste') onWaste()
      else if (message.type === 'waits') watchdog?.refresh()
      else if (message.type === 'progress') onProgress(message.progress)
      else if (message.type === 'ready') resolve()
      else end(toError(message.refusal))
    })
    ended.then((reason) => end(new IngestError('store-failed', `The thread that writes has ended: ${reason}.`)))

    function end(reason: IngestError): void {
      reject(reason)
      if (isReady && !isClosed) fail(reason)
    }
  })
  await ready
  isReady = true
  letGo()

  return {
    append(project, batch, builds) {
      const { buffer, length } = batch
      return send({ type: 'append', id: ++lastId, project, record: batch, builds }, length, [buffer as ArrayBuffer])
    },

    locate(project, eventIds, fingerprints) {
      const bytes = eventIds.reduce((sum, eventId) => sum + eventId.length, fingerprints.byteLength)
      return send({ type: 'locate', id: ++lastId, project, eventIds, fingerprints }, bytes)
    },

    decide(decide) {
      return new Promise((resolve, reject) => {
        undecided.push({ decide, resolve, reject })
        if (!isDeciding) void decideAll()
      })
    },

    fail,
    failure: () => failure,

    async close() {
      isClosed = true
      if (waiting.size > 0 && !failure) {
        await new Promise<void>((resolve) => {
          onIdle = resolve
        })
      }
      hold()
      port.postMessage({ type: 'close' })
      // a thread whose commit never ends does not end either
      await (failure ? Promise.race([ended, sleep(failedCloseMs, undefined, { ref: false })]) : ended)
      letGo()
    },
  }
}

function closed(): IngestError {
  return new IngestError('store-closed', 'The store is closed.')
}

interface Thread {
  port: {
    postMessage(message: ToWriter, transfer?: readonly ArrayBuffer[]): void
    on(event: 'message', listener: (message: FromWriter) => void): unknown
  }
  /** Why it has ended; never rejects. */
  ended: Promise<string>
  hold(): void
  letGo(): void
}

function startThread(environment: Environment, data: WriterData): Thread {
  // from source, for tests: a thread would need a loader for TypeScript, which takes a second to start each time
  if (import.meta.url.endsWith('.ts')) {
    const { port1, port2 } = new MessageChannel()
    runWriter(port2, environment, data, { enter() {}, leave() {} }).then(() => port2.close())
    const ended = new Promise<string>((resolve) => port1.on('close', () => resolve('its port was closed')))
    return { port: port1, ended, hold: () => port1.ref(), letGo: () => port1.unref() }
  }
  const gate = gateAt(data.gates, writerGate)
  // at its birth, as it begins by loading LMDB
  gate.enter()
  const worker = new Worker(new URL('./write-worker.js', import.meta.url), {
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
      gate.leave()
      resolve(reason)
    })
  })
  return { port: worker, ended, hold: () => worker.ref(), letGo: () => worker.unref() }
}
