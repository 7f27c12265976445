import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError, type StoreCommit } from '@ingest/core'
import { roundOf } from './commit-state.ts'
import { deserializeError } from './error-transfer.ts'
import { createInFlightRequests, type InFlightOptions } from './in-flight-requests.ts'
import type { ThreadMessage, WriteThreadData } from './request-loop.ts'
import { startWorkerThread, type WorkerThreadOptions } from './worker-thread.ts'

/*
 * Threads that write. The thread that serves requests never commits: it sends requests to the writer of the log or to
 * the writer of blobs, each a worker thread with an environment of its own.
 *
 * - client: the sending side (`request-client.ts`); it posts the requests of one turn of the event loop in one message
 * - request in flight: sent and not settled (`in-flight-requests.ts`); the bytes in flight are limited
 * - loop: the receiving side (`request-loop.ts`); while one batch commits, the next one queues up in the port
 * - commit: one transaction for a batch (`commit.ts`); a request that fails is undone and refused alone
 * - round: a counter in shared memory (`commit-state.ts`); a new round withdraws every request that is in no
 *   transaction yet
 * - watchdog: fails the store if a commit does not end, as after an I/O error it may never return
 *   (`commit-watchdog.ts`)
 * - exit guard: keeps a process from exiting while a thread is inside LMDB (`exit-guard.ts`)
 *
 * The id of a request is free again once the thread has settled it, and the thread settles each request exactly once. A
 * failure frees all ids, and no request is accepted after it. So a late response never settles another request.
 */

/** How long a thread whose commit may never return has to end; then it is left running. */
const failedCloseMs = 2000

export interface RequestOptions {
  transfer?: ArrayBuffer[]
  onCommit?: ((commit: StoreCommit) => void) | undefined
}

/** A request to which the client will add an id. */
export type Unsent<Request> = Request extends { id: number } ? Omit<Request, 'id'> : never

/** Sends requests to a thread that writes. A request is durable when it resolves. */
export interface RequestClient<Request> {
  /**
   * `bytes` counts towards the limit of bytes in flight; `transfer` is detached from this thread. `onCommit` is called
   * with the commit of the request before it resolves.
   *
   * @throws {IngestError} `overloaded`, `disk-full`, `store-locked`, `store-failed`, `store-closed`
   */
  request<Value>(request: Unsent<Request>, bytes: number, options?: RequestOptions): Promise<Value>
  /** Rejects all requests, those in flight and later ones, because of a failure found elsewhere. */
  fail(error: IngestError): void
  /** The failure after which nothing can be written any more. */
  failure(): IngestError | undefined
  /** Why a request would be rejected now: a failure, `store-closed`, or `store-locked`. */
  unavailable(): IngestError | undefined
  /** The requests that are not settled, and what they count for. */
  inFlight(): { requests: number; bytes: number }
  /** Accepts no more requests; resolves when those in flight are settled and the thread has ended, or cannot end. */
  close(): Promise<void>
}

export interface RequestClientOptions
  extends Pick<WorkerThreadOptions<never>, 'module' | 'slot'>,
    Pick<InFlightOptions, 'lockHolder' | 'newestTransaction' | 'timeoutMs'> {
  data: WriteThreadData
  /**
   * Called once when the store can no longer be trusted: every request is rejected from then on. Also called, with
   * `store-locked`, when {@link RequestClient.close} leaves the thread behind.
   */
  onFatal: (error: IngestError) => void
  /** Called with messages of the thread other than {@link ThreadMessage}. */
  onMessage?: (message: never) => void
  /** Called after each commit that the thread reports, when its requests are settled. */
  onCommit?: (commit: StoreCommit) => void
}

interface Post<Request> {
  request: Request
  transfer: ArrayBuffer[]
}

/** Starts a thread that writes, and resolves once it is ready. Rejects once a thread that cannot start has ended. */
export async function startRequestClient<Request extends { id: number }>(
  options: RequestClientOptions,
): Promise<RequestClient<Request>> {
  const { onMessage = () => {}, onCommit = () => {} } = options
  const state = options.data.commitState
  let isReady = false
  let isClosed = false
  let onReady = () => {}
  let onUnready = (_: IngestError) => {}
  let outbox: Post<Request>[] = []
  const thread = startWorkerThread<readonly Request[], ThreadMessage>({
    ...options,
    onMessage(message) {
      if (message.type === 'settled') {
        inFlight.settle(message)
        if (message.commit) onCommit(message.commit)
      } else if (message.type === 'alive') inFlight.keepAlive()
      else if (message.type === 'ready') onReady()
      else if (message.type === 'failed') onEnd(deserializeError(message.error))
      else onMessage(message)
    },
  })
  const inFlight = createInFlightRequests({ ...options, state, onBusy: thread.ref, onIdle })
  thread.ended.then((reason) => onEnd(new IngestError('store-failed', `A thread that writes has ended: ${reason}.`)))

  function onIdle(): void {
    // a close waits for the thread to end, and the thread may be all that keeps the process until then
    if (!isClosed) thread.unref()
  }

  function onEnd(error: IngestError): void {
    onUnready(error)
    // after a close, a thread ends once it has settled all requests
    const isExpected = isClosed && inFlight.size().requests === 0
    if (isReady && !isExpected) inFlight.fail(error)
  }

  function unavailable(): IngestError | undefined {
    if (isClosed) return inFlight.failure() ?? new IngestError('store-closed', 'The store is closed.')
    return inFlight.failure() ?? inFlight.lockError()
  }

  function post(posts: readonly Post<Request>[]): void {
    // Node.js 20 sends a view of it, and the thread fails to read the whole message
    if (posts.some(({ transfer }) => transfer.some(({ byteLength }) => byteLength === 0))) {
      throw new IngestError('internal-error', 'The memory of a request was transferred elsewhere before it was sent.')
    }
    thread.post(
      posts.map(({ request }) => request),
      posts.flatMap(({ transfer }) => transfer),
    )
  }

  /** Posts the requests of this turn of the event loop in one message, so that the thread commits them together. */
  function flush(): void {
    const posts = outbox
    outbox = []
    try {
      post(posts)
    } catch {
      // one of them cannot be cloned, so each is posted alone
      for (const each of posts) {
        try {
          post([each])
        } catch (error) {
          inFlight.reject(each.request.id, error)
        }
      }
    }
  }

  /** Resolves with whether the thread has ended; it may never end. */
  async function endedSoon(): Promise<boolean> {
    const timeout = sleep(failedCloseMs, false, { ref: false })
    return Promise.race([thread.ended.then(() => true), timeout])
  }

  try {
    await new Promise<void>((resolve, reject) => {
      onReady = resolve
      onUnready = reject
    })
  } catch (error) {
    await endedSoon()
    throw error
  }
  isReady = true
  thread.unref()
  return {
    request(request, bytes, { transfer = [], onCommit } = {}) {
      return new Promise((resolve, reject) => {
        const error = unavailable()
        if (error) throw error
        inFlight.checkLimit(bytes)
        const id = inFlight.add({ bytes, resolve, reject, onCommit })
        if (outbox.length === 0) setImmediate(flush)
        outbox.push({ request: { ...request, id, round: roundOf(state) } as unknown as Request, transfer })
      })
    },

    fail: inFlight.fail,
    failure: inFlight.failure,
    unavailable,
    inFlight: inFlight.size,

    async close() {
      isClosed = true
      await inFlight.settled()
      thread.ref()
      thread.post({ type: 'close' })
      if (inFlight.failure() || inFlight.lockError()) {
        const hasEnded = await endedSoon()
        const lockError = inFlight.lockError()
        if (!hasEnded && lockError) inFlight.fail(lockError)
      } else await thread.ended
      thread.unref()
    },
  }
}
