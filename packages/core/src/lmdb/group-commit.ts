import { IngestError } from '../error.ts'
import type { Environment } from './environment.ts'
import { toError, toRefusal } from './refusal.ts'

/** One transaction's worth of jobs is at most so many bytes of payload, so that no commit takes long. */
const groupBytesMax = 16 * 2 ** 20
/** More than this waiting means that the disk cannot keep up: what comes then is refused at once. */
const queueBytesMax = 64 * 2 ** 20

/** A piece of work inside a write transaction: synchronous, and total once it has written anything. */
export type Job<T> = () => T

export interface GroupCommit {
  /**
   * Runs the job in a transaction that it shares with what else is waiting, and resolves with what it returned once
   * that is durable. When anything fails the whole transaction is undone, and everything in it rejects.
   *
   * @throws {IngestError} `overloaded`, `disk-full`, `store-failed`, `store-closed`
   */
  commit<T>(bytes: number, job: Job<T>): Promise<T>
  /** Ends everything for a reason that was found elsewhere; what is waiting and what comes is refused with it. */
  fail(refusal: IngestError): void
  /** Why nothing can be committed any more. */
  failure(): IngestError | undefined
  /** Takes nothing more, and resolves when what was waiting is settled. */
  close(): Promise<void>
}

export interface GroupCommitOptions {
  environment: Environment
  /** Called once when the store can no longer be trusted; everything is refused from then on. */
  onFatal: (error: IngestError) => void
  /** A commit that takes longer is taken for one that never ends, as LMDB's do after an I/O error. */
  timeoutMs: number
}

interface Waiting {
  bytes: number
  job: Job<unknown>
  resolve: (value: never) => void
  reject: (error: unknown) => void
}

/**
 * Many writers, one transaction, one sync: while one group is being written, the next one gathers. Only one
 * transaction is under way at a time, so what is decided in one never stands on another that may still fail.
 */
export function createGroupCommit(options: GroupCommitOptions): GroupCommit {
  const { environment, onFatal, timeoutMs } = options
  let queue: Waiting[] = []
  let queueBytes = 0
  let running: Promise<void> | undefined
  let failure: IngestError | undefined
  let closed = false

  async function run(): Promise<void> {
    while (queue.length > 0) {
      let group: Waiting[] = []
      try {
        if (failure) throw failure
        const results = await endsInTime(
          environment.root.childTransaction(() => {
            group = takeGroup()
            return group.map(({ job }) => job())
          }),
        )
        checkFile()
        for (const [i, { resolve }] of group.entries()) resolve(results[i] as never)
      } catch (error) {
        const refusal = toError(toRefusal(await causeOf(error), environment.isFull))
        if (refusal.code === 'store-failed') fail(refusal)
        for (const { reject } of group.length > 0 ? group : takeGroup()) reject(refusal)
      }
    }
    running = undefined
  }

  /** As late as can be: when the write lock is ours, so that all who came meanwhile share the sync. */
  function takeGroup(): Waiting[] {
    let bytes = 0
    let count = 0
    while (count < queue.length && (count === 0 || bytes < groupBytesMax)) bytes += (queue[count++] as Waiting).bytes
    const group = queue.slice(0, count)
    queue = queue.slice(count)
    queueBytes -= bytes
    return group
  }

  /** Before anything is acknowledged: what went into a file that is no longer there went nowhere. */
  function checkFile(): void {
    const lost = environment.lost()
    if (lost !== undefined) throw new IngestError('store-failed', `${lost}.`)
  }

  function fail(refusal: IngestError): void {
    if (failure) return
    failure = refusal
    try {
      onFatal(refusal)
    } catch (error) {
      // the embedder's, and to be seen by the embedder, but not in place of settling what waits
      process.nextTick(() => {
        throw error
      })
    }
  }

  async function endsInTime<T>(transaction: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new IngestError('store-failed', `A commit has not ended within ${timeoutMs} ms.`))
      }, timeoutMs)
    })
    try {
      return await Promise.race([transaction, late])
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    commit(bytes, job) {
      if (failure) return Promise.reject(failure)
      if (closed) return Promise.reject(new IngestError('store-closed', 'The store is closed.'))
      if (queueBytes > 0 && queueBytes + bytes > queueBytesMax) {
        return Promise.reject(
          new IngestError('overloaded', `${queueBytes} bytes wait to be written: send them again in a moment.`, {
            limit: queueBytesMax,
            actual: queueBytes + bytes,
            retryAfterSeconds: 1,
          }),
        )
      }
      return new Promise((resolve, reject) => {
        queue.push({ bytes, job, resolve, reject })
        queueBytes += bytes
        running ??= run()
      })
    },
    fail,
    failure: () => failure,
    async close() {
      closed = true
      await running
    },
  }
}

/** lmdb rejects with a general error, and tells the reason in a second promise, which must not go uncaught. */
async function causeOf(error: unknown): Promise<unknown> {
  const { commitError } = error as { commitError?: Promise<unknown> }
  if (!commitError) return error
  return Promise.race([
    commitError.then(
      () => error,
      (reason) => reason,
    ),
    new Promise((resolve) => {
      setTimeout(resolve, 1000, error)
    }),
  ])
}
