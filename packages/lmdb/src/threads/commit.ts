import { setTimeout as sleep } from 'node:timers/promises'
import { type ErrorCode, IngestError } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import { lockedError, lockTimeoutMs } from '../environment/write-lock.ts'
import { beginCommit, beginWaiting, type CommitState, endCommit } from './commit-state.ts'
import { type SerializedError, serializeError, toRequestError } from './error-transfer.ts'
import type { ExitGuard } from './exit-guard.ts'
import type { Handled, Outcome } from './request-loop.ts'

/** Commits many requests in one transaction; commits none after the disk has failed. */
export interface Commit<Request, Value> {
  /**
   * Resolves when a write can be tried: no stopped process holds the write lock, and a disk that was full has some
   * space again. Called before each commit, because a thread that waits inside LMDB cannot be ended, so neither its
   * process nor the store could be closed. Calls `onWait` at each check while it waits.
   *
   * @throws {IngestError} `disk-full`, `store-locked` when it takes longer than {@link lockTimeoutMs}
   */
  ready(guard: ExitGuard, onWait?: () => void): Promise<void>
  /** Resolves when it is this thread's turn to commit. Requests can be withdrawn until then. */
  turn(guard: ExitGuard): Promise<void>
  /**
   * Writes the requests in one durable transaction, and settles them. A request whose write throws is undone, and only
   * this request is refused: the requests before and after it are committed in other transactions. An error of the disk
   * or of the transaction refuses all requests that are not committed yet. Withdrawn requests are not written.
   */
  commit(requests: readonly Request[], settle: (handled: Handled<Value>) => void): void
  /** Refuses requests because of an error that occurred before the transaction. */
  refuse(requests: readonly Request[], error: unknown): Outcome<never>[]
  /** Set once the disk has failed: LMDB's next transaction may write nothing, or never end. */
  failure(): SerializedError | undefined
}

/** The work of a transaction. */
export interface Transaction<Request, Value> {
  /** Called before the first request. A `store-damaged` that it throws fails the store. */
  begin?(): void
  write(request: Request): Value
  /** Called after the last request. */
  end?(): void
  /** Called when the transaction was undone. */
  onUndone?(): void
}

interface CommitRequest {
  id: number
  /** The round of the {@link CommitState} when the request was sent; without one, it cannot be withdrawn. */
  round?: number
}

/** How often the lock is polled while a stopped process holds it. */
const pollMs = 50

export function createCommit<Request extends CommitRequest, Value>(
  { write: writeAll, untilTurn, lockHolder, lacksSpace, checkSpace }: Environment,
  state: CommitState,
  { begin = () => {}, write, end = () => {}, onUndone = () => {} }: Transaction<Request, Value>,
): Commit<Request, Value> {
  let failure: SerializedError | undefined
  /** The stopped process that holds the write lock, and since when it is known. */
  let locked: { pid: number | undefined; since: number } | undefined
  let isDiskFull = false

  function refuse(requests: readonly Request[], error: unknown): Outcome<never>[] {
    const refusal = serializeError(error, lacksSpace)
    if (refusal.code === 'store-failed') failure ??= refusal
    isDiskFull = refusal.code === 'disk-full'
    return rejectAll(requests, refusal)
  }

  /**
   * Commits a group. If the write of one request fails, nothing is committed and a {@link RequestFailure} is thrown.
   */
  function commitGroup(group: readonly Request[]): Handled<Value> {
    const startedAt = performance.now()
    let written = 0

    function writeOne(request: Request, index: number, round: number): Outcome<Value> {
      const { id } = request
      if (request.round !== undefined && request.round !== round) return { id, error: withdrawn }
      try {
        written++
        return { id, value: write(request) }
      } catch (error) {
        throw toRequestFailure(error, index)
      }
    }

    beginWaiting(state)
    try {
      const outcomes = writeAll(() => {
        const round = beginCommit(state)
        beginAll(begin)
        const all = group.map((request, index) => writeOne(request, index, round))
        end()
        return all
      })
      if (written === 0) return { outcomes }
      return { outcomes, commit: { requests: written, durationMs: performance.now() - startedAt } }
    } catch (error) {
      onUndone()
      throw error
    } finally {
      endCommit(state)
    }
  }

  return {
    async ready(guard, onWait = () => {}) {
      // avoids a commit that fails, which is expensive
      if (isDiskFull) checkSpace()
      for (let holder = lockHolder(); holder?.isStopped; holder = lockHolder()) {
        if (!locked || locked.pid !== holder.pid) locked = { pid: holder.pid, since: performance.now() }
        if (performance.now() - locked.since > lockTimeoutMs) throw lockedError(holder)
        onWait()
        await pause(guard, pollMs)
      }
      locked = undefined
    },

    async turn(guard) {
      beginWaiting(state)
      try {
        await untilTurn((ms) => pause(guard, ms))
      } finally {
        endCommit(state)
      }
    },

    commit(requests, settle) {
      let rest = requests
      for (let count = rest.length; rest.length > 0; ) {
        if (failure) return settle({ outcomes: rejectAll(rest, failure) })
        try {
          settle(commitGroup(rest.slice(0, count)))
          rest = rest.slice(count)
          count = rest.length
        } catch (error) {
          if (!(error instanceof RequestFailure)) return settle({ outcomes: refuse(rest, error) })
          // the requests before it are committed first, as it may have failed because of their writes
          count = error.index
          if (count > 0) continue
          settle({ outcomes: refuse(rest.slice(0, 1), error.cause) })
          rest = rest.slice(1)
          count = rest.length
        }
      }
    },
    refuse,
    failure: () => failure,
  }
}

/** Waits outside of LMDB, so that the thread can be ended meanwhile. */
async function pause(guard: ExitGuard, ms: number): Promise<void> {
  guard.leaveNative()
  await sleep(ms)
  guard.enterNative()
}

/** The write of one request has thrown an error that does not affect others. */
class RequestFailure extends Error {
  readonly index: number

  constructor(index: number, cause: IngestError) {
    super(cause.message, { cause })
    this.index = index
  }
}

/** Calls `begin`. Its error belongs to no single request: no request can be written, and none is dropped for it. */
function beginAll(begin: () => void): void {
  try {
    begin()
  } catch (cause) {
    const { code, message } = cause as Partial<IngestError>
    throw code === 'store-damaged' ? new IngestError('store-failed', `${message}`, { cause }) : cause
  }
}

/** Codes of errors that any request would meet. */
const sharedCodes: ReadonlySet<ErrorCode> = new Set(['disk-full', 'store-failed', 'store-locked', 'overloaded'])

/** Wraps the error of a single request's write. */
function toRequestFailure(thrown: unknown, index: number): unknown {
  const error = toRequestError(thrown)
  return error instanceof IngestError && !sharedCodes.has(error.code) ? new RequestFailure(index, error) : error
}

/** The outcome of a withdrawn request, whose caller has an error already. */
const withdrawn: SerializedError = { code: 'store-locked', message: 'The request was withdrawn.', details: {} }

function rejectAll(requests: readonly CommitRequest[], error: SerializedError): Outcome<never>[] {
  return requests.map(({ id }) => ({ id, error }))
}
