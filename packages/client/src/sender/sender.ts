import { setTimeout as wait } from 'node:timers/promises'
import { type BatchResult, IngestError, type Issue } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'
import { createEventIds } from '../batch/event-ids.ts'
import { serializeEvent } from '../batch/serialize-event.ts'
import type { Client } from '../client.ts'
import type { RetryEffects } from '../http/retry.ts'
import { createSendLoop } from './send-loop.ts'
import { openSendQueue, type UnsentCounts } from './send-queue.ts'

/**
 * Why an event was dropped: the queue was full (`queue_overflow`); the server rejected it (`rejected`); it is larger than
 * a batch, or its batch got a 413 (`too_large`) or a 400 (`bad_request`); the sender was closed before the event was
 * stored, without a spool (`closed`); its line in the spool is damaged (`damaged`).
 */
export type DropReason = 'bad_request' | 'closed' | 'damaged' | 'queue_overflow' | 'rejected' | 'too_large'

/** An event that the server rejected. */
export interface Rejection {
  event: JsonObject
  issues: readonly Issue[]
}

export interface SenderOptions {
  /** How long an event waits for others to join its batch, in milliseconds. Default 2,000. */
  flushMs?: number | undefined
  /** The most queued events, including those in flight; further ones are dropped. Default 10,000. */
  queueEventsMax?: number | undefined
  /** The most bytes of queued events. Default 16 MiB. */
  queueBytesMax?: number | undefined
  /** A directory that keeps queued events over a crash or a restart of the process; for one sender at a time. */
  spool?: string | undefined
  /** Called for each batch with rejected events. They are not sent again. */
  onRejected?: ((rejections: Rejection[]) => void) | undefined
  /** Called for all dropped events, rejected ones too, with the events as they would have been sent. */
  onDrop?: ((reason: DropReason, events: JsonObject[]) => void) | undefined
  /** Called before a batch is sent again in `pauseMs`, also before the five minutes after a 401. */
  onRetry?: ((error: unknown, pauseMs: number) => void) | undefined
  /** Ends the sender at once, as `close({ deadlineMs: 0 })` does. */
  signal?: AbortSignal | undefined
}

export interface SenderStats {
  /** Newly stored events. */
  accepted: number
  /** Events that were already stored: by another sender, or by an attempt whose response was lost. */
  duplicates: number
  dropped: Readonly<Record<DropReason, number>>
  /** Queued events, including those in flight. */
  queuedEvents: number
  queuedBytes: number
  /** The number of retries. */
  retries: number
  /** The error of the last attempt; undefined after a success. */
  failure: unknown
}

/** Sends events in batches, in their order, until each is stored or dropped. */
export interface Sender {
  /**
   * Queues an event and returns its `eventId`. An object is serialized at once by `JSON.stringify`; bytes must be a JSON
   * object, and are kept. A missing `eventId` is generated (UUIDv7), a missing `projectId` is that of the client. With a
   * spool the event outlives the process when this returns. An event that does not fit into the queue or into a batch is
   * dropped: it is counted and passed to `onDrop` before this returns.
   *
   * @throws {IngestError} `invalid-argument` for anything but an object, an object that cannot be serialized, and an
   *   invalid `eventId` (`issues` name the member); `malformed-body` for bytes that are not JSON; `store-closed`.
   */
  send(event: JsonObject | Uint8Array): string
  /** Sends all queued events now. Resolves when they are stored or dropped, or when the sender is closed. */
  flush(): Promise<void>
  stats(): SenderStats
  /**
   * Sends all queued events and closes the sender, after `deadlineMs` at the latest (default 10,000), or earlier if the
   * next retry would come after the deadline. Events that are left stay in the spool, or are dropped as `closed`; those in
   * flight may have been stored. A process warning counts them. The client stays open.
   */
  close(options?: { deadlineMs?: number }): Promise<SenderStats>
}

/**
 * Sends events in the background:
 *
 * ```ts
 * const client = createClient({ url: 'https://ingest.example', projectId: 'game-1', key: process.env.INGEST_KEY })
 * const sender = createSender(client, { spool: 'data/spool' })
 * sender.send({ type: 'round.start', buildId: '2026.11.20' })
 * ```
 *
 * One batch is in flight at a time, so events are stored in the order in which they were sent. Only a pending `flush` or
 * `close` keeps the process alive. Close the sender before its client: on a closed client, the next attempt ends the
 * sender as `close({ deadlineMs: 0 })` does.
 *
 * @throws {IngestError} `invalid-argument`, also if another process uses the spool, or for a spool of another project
 */
export function createSender(client: SenderClient, options: SenderOptions = {}): Sender {
  return createSenderWith(client, options, {})
}

/** The part of a client that a sender needs. */
export type SenderClient = Pick<Client<unknown>, 'projectId' | 'submitBatch'>

/** A sender with a given clock and randomness. */
export function createSenderWith(client: SenderClient, options: SenderOptions, effects: RetryEffects): Sender {
  const { flushMs = 2000, queueEventsMax = 10_000, queueBytesMax = 16 * 1024 * 1024, signal } = options
  checkOptions({ flushMs, queueEventsMax, queueBytesMax })
  signal?.throwIfAborted()
  const { now = () => performance.now(), random = Math.random, sleep = sleepUntil } = effects
  const { projectId } = client
  const makeEventId = createEventIds()
  const queue = openSendQueue({ projectId, eventsMax: queueEventsMax, bytesMax: queueBytesMax, spool: options.spool })
  const counts = createCounts(options)
  const loop = createSendLoop({
    queue,
    submit: (body, signal) => client.submitBatch(body, { signal, retries: 0 }),
    onSettle: (result, count) => counts.settle(result, queue.first(count)),
    onDrop: (reason, count) => counts.drop(reason, queue.first(count)),
    onRetry: (error, ms) => notify(options.onRetry, error, ms),
    onEnd: abort,
    effects: { now, random, sleep },
  })
  const startTimer = createTimer(flushMs, sleep, loop.signal, () => {
    queue.makeDue()
    loop.wake()
  })
  let closed: Promise<SenderStats> | undefined

  function stats(): SenderStats {
    return {
      ...counts.current(),
      queuedEvents: queue.events(),
      queuedBytes: queue.bytes(),
      retries: loop.retries(),
      failure: loop.failure(),
    }
  }

  async function finish(deadlineMs: number): Promise<SenderStats> {
    queue.makeDue()
    await loop.finish(deadlineMs)
    signal?.removeEventListener('abort', abort)
    openSenders.delete(warnUnclosed)
    const unsent = describeUnsent(queue.unsent(), options.spool)
    counts.drop('closed', queue.close())
    if (unsent) process.emitWarning(`The sender of ${projectId} ended with ${unsent}${describeFailure(loop.failure())}`)
    return stats()
  }

  function warnUnclosed(): void {
    const unsent = describeUnsent(queue.unsent(), options.spool)
    if (unsent) process.emitWarning(`The process ended before the sender of ${projectId} was closed, with ${unsent}`)
  }

  function abort(): void {
    loop.abort()
    sender.close({ deadlineMs: 0 })
  }

  const sender: Sender = {
    send(event) {
      if (closed) throw new IngestError('store-closed', 'This sender is closed.')
      const { eventId, bytes } = serializeEvent(event, projectId, makeEventId)
      const dropReason = queue.add(bytes)
      if (dropReason) counts.drop(dropReason, [{ bytes }])
      else {
        startTimer()
        if (queue.isFull()) loop.wake()
      }
      return eventId
    },

    async flush() {
      if (queue.events() === 0 || loop.signal.aborted) return
      queue.makeDue()
      loop.wake()
      await keepAlive(queue.whenRemoved())
    },

    stats,

    async close({ deadlineMs = 10_000 } = {}) {
      if (!(deadlineMs >= 0)) throw new IngestError('invalid-argument', 'deadlineMs must be a number from 0.')
      closed ??= keepAlive(finish(deadlineMs))
      return closed
    },
  }

  signal?.addEventListener('abort', abort)
  openSenders.add(warnUnclosed)
  counts.drop('damaged', [], queue.damaged)
  counts.drop('too_large', queue.tooLarge)
  if (queue.events() > 0) loop.wake()
  return sender
}

/** Called for the senders that are still open when the process ends. A signal or `process.exit` calls none. */
const openSenders = new Set<() => void>()
process.on('beforeExit', () => {
  for (const warnUnclosed of openSenders) warnUnclosed()
  openSenders.clear()
})

/** `3 unsent events: 2 kept in data/spool for the next sender, 1 dropped.` Empty without unsent events. */
function describeUnsent({ kept, lost }: UnsentCounts, spool: string | undefined): string {
  const count = kept + lost
  if (count === 0) return ''
  const parts = [kept > 0 && `${kept} kept in ${spool} for the next sender`, lost > 0 && `${lost} dropped`]
  return `${count} unsent event${count === 1 ? '' : 's'}: ${parts.filter(Boolean).join(', ')}.`
}

function describeFailure(failure: unknown): string {
  return failure === undefined ? '' : ` The last attempt failed: ${(failure as Error).message}`
}

/** Returns the function that starts a timer, unless it is running. */
function createTimer(
  ms: number,
  sleep: Required<RetryEffects>['sleep'],
  signal: AbortSignal,
  onTime: () => void,
): () => void {
  let isRunning = false
  return () => {
    if (isRunning) return
    isRunning = true
    sleep(ms, signal).then(
      () => {
        isRunning = false
        onTime()
      },
      () => {},
    )
  }
}

/** Counts the outcomes of events, and calls the callbacks for them. */
function createCounts({ onDrop, onRejected }: SenderOptions) {
  const dropped = { bad_request: 0, closed: 0, damaged: 0, queue_overflow: 0, rejected: 0, too_large: 0 }
  let accepted = 0
  let duplicates = 0

  function drop(reason: DropReason, events: readonly { bytes: Buffer }[], count = events.length): void {
    if (count === 0) return
    dropped[reason] += count
    notify(onDrop, reason, events.map(parseEvent))
  }

  return {
    drop,

    /** Counts the result of a batch of these events. */
    settle(result: BatchResult, events: readonly { bytes: Buffer }[]): void {
      accepted += result.accepted
      duplicates += result.duplicates
      if (result.rejected.length === 0) return
      const rejected = result.rejected.map(({ index, issues }) => ({
        event: events[index] as { bytes: Buffer },
        issues,
      }))
      notify(
        onRejected,
        rejected.map(({ event, issues }) => ({ event: parseEvent(event), issues })),
      )
      drop(
        'rejected',
        rejected.map(({ event }) => event),
      )
    },

    current: () => ({ accepted, duplicates, dropped: { ...dropped } }),
  }
}

function parseEvent({ bytes }: { bytes: Buffer }): JsonObject {
  return JSON.parse(bytes.toString())
}

/** Calls a callback; its errors become process warnings. */
function notify<Args extends unknown[]>(callback: ((...args: Args) => void) | undefined, ...args: Args): void {
  if (!callback) return
  const call = async () => callback(...args)
  call().catch((error) => process.emitWarning(`A callback of the sender failed: ${error}`))
}

/** Keeps the process alive until the promise is settled, as the timers of the sender do not. */
async function keepAlive<T>(promise: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, timerMsMax)
  try {
    return await promise
  } finally {
    clearInterval(timer)
  }
}

/** The longest delay of a Node timer; a longer one fires at once. */
const timerMsMax = 2 ** 31 - 1

async function sleepUntil(ms: number, signal: AbortSignal): Promise<void> {
  for (let left = ms; left > 0; left -= timerMsMax) {
    await wait(Math.min(left, timerMsMax), undefined, { signal, ref: false })
  }
}

function checkOptions(options: Record<string, number>): void {
  for (const [name, value] of Object.entries(options)) {
    if (!(Number.isSafeInteger(value) && value > 0)) {
      throw new IngestError('invalid-argument', `${name} must be an integer of at least 1.`)
    }
  }
}
