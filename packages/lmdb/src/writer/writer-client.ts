import type { IngestError } from '@ingest/core'
import type { Environment, Rows } from '../environment/environment.ts'
import type { Position } from '../ids/entry.ts'
import type { RebuildProgress } from '../ids/log-reader.ts'
import { writerSlot } from '../threads/exit-guard.ts'
import { type RequestClient, startRequestClient } from '../threads/request-client.ts'
import type { Appended } from './append-batch.ts'
import { type Change, record } from './change.ts'
import type { FromWriter, WriterData, WriterRequest } from './writer.ts'

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
  fail(error: IngestError): void
  /** Why nothing can be written any more. */
  failure(): IngestError | undefined
  /** Why nothing can be written now. */
  unavailable(): IngestError | undefined
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

/** A commit takes no further decision after so many rows: its transaction must not take long. */
export const decidedRowsMax = 4096

interface Undecided {
  decide(table: (name: string) => Rows): unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
}

/** Starts the thread that writes, and resolves once it has caught up with the log. */
export async function startWriter(options: WriterOptions): Promise<Writer> {
  const { environment, data, onFatal, onProgress, onWaste, timeoutMs } = options
  const thread: RequestClient<WriterRequest> = await startRequestClient({
    module: new URL('./write-worker.js', import.meta.url),
    data,
    slot: writerSlot,
    onFatal,
    lockHolder: environment.lockHolder,
    onMessage(message: FromWriter) {
      if (message.type === 'waste') onWaste()
      else if (message.type === 'progress') onProgress(message.progress)
    },
    timeoutMs,
  })
  let lastId = 0
  let undecided: Undecided[] = []
  let isDeciding = false

  /** One group after another: decisions of one process on the same rows would lose races to each other. */
  async function decideAll(): Promise<void> {
    while (undecided.length > 0) {
      const group = undecided
      undecided = []
      await decideTogether(group)
    }
    isDeciding = false
  }

  /** Makes decisions in one step, or a few: each on what those before it have written. */
  async function decideTogether(group: Undecided[]): Promise<void> {
    let left = group
    try {
      while (left.length > 0) {
        const unavailable = thread.unavailable()
        if (unavailable) throw unavailable
        environment.root.resetReadTxn()
        const results: unknown[] = []
        const { result: thrower, change } = record(environment.table, (table, rowCount) => {
          for (const each of left) {
            try {
              results.push(each.decide(table))
            } catch (error) {
              each.reject(error)
              return each
            }
            if (rowCount() >= decidedRowsMax) break
          }
          return undefined
        })
        // what it may have written before it threw is in this change, so the others decide anew
        if (thrower) left = left.filter((each) => each !== thrower)
        else if (change.rows.length === 0 || (await sendChange(change))) {
          for (const [i, result] of results.entries()) left[i]?.resolve(result as never)
          left = left.slice(results.length)
        }
      }
    } catch (error) {
      for (const { reject } of left) reject(error)
    }
  }

  function sendChange(change: Change): Promise<boolean> {
    const bytes = change.rows.reduce((sum, { value }) => sum + (value?.length ?? 0), 0)
    return thread.request({ type: 'change', id: ++lastId, ...change }, bytes)
  }

  return {
    append(project, batch, builds) {
      const { buffer, length } = batch
      const request = { type: 'append', id: ++lastId, project, record: batch, builds } as const
      return thread.request(request, length, [buffer as ArrayBuffer])
    },

    locate(project, eventIds, fingerprints) {
      const bytes = eventIds.reduce((sum, eventId) => sum + eventId.length, fingerprints.byteLength)
      return thread.request({ type: 'locate', id: ++lastId, project, eventIds, fingerprints }, bytes)
    },

    decide(decide) {
      return new Promise((resolve, reject) => {
        undecided.push({ decide, resolve, reject })
        if (isDeciding) return
        isDeciding = true
        // those come along that what was settled last gives rise to as well
        queueMicrotask(decideAll)
      })
    },

    fail: thread.fail,
    failure: thread.failure,
    unavailable: thread.unavailable,
    close: thread.close,
  }
}
