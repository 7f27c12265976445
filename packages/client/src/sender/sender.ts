import { resolve } from 'node:path'
import { IngestError } from '@ingest/core'
import { createEventIds } from '../batch/event-ids.ts'
import { serializeEvent } from '../batch/serialize-event.ts'
import type { Client } from '../client.ts'
import { type RetryEffects, sleep, timerMsMax } from '../http/retry.ts'
import { createOutcomes, type OutcomeCounts, type Outcomes, type SenderCallbacks } from './outcomes.ts'
import { type AttemptStats, createSendLoop, type SendLoop } from './send-loop.ts'
import { createSendQueue, type SendQueue } from './send-queue.ts'
import { openSpool, spoolBytesMin } from './spool.ts'

/** Options of `createSender`. */
export interface SenderOptions extends SenderCallbacks {
  /** How long an event waits for others to join its batch, in milliseconds. Default 2,000. */
  flushMs?: number | undefined
  /**
   * Maximum number of queued events in memory, including events in flight. Default: 10,000. Without a spool, further
   * events are dropped.
   */
  queueEventsMax?: number | undefined
  /** Maximum bytes of queued events in memory. Default: 16 MiB. */
  queueBytesMax?: number | undefined
  /**
   * A directory that keeps queued events across a crash or restart, and events that do not fit in memory. Only one
   * sender at a time may use it.
   */
  spool?: string | undefined
  /** Maximum bytes of the spool, at least 2 MiB; further events are dropped. Default: 1 GiB. */
  spoolBytesMax?: number | undefined
  /** Whether an event without a `timestamp` gets the time of `send`, in RFC 3339. Default: false. */
  stamp?: boolean | undefined
  /** Ends the sender at once, as `close({ deadlineMs: 0 })` does. */
  signal?: AbortSignal | undefined
}

/** Counts since the sender was created, and its current queue. */
export interface SenderStats extends OutcomeCounts, AttemptStats {
  /** Queued events, including those in flight. */
  queuedEvents: number
  queuedBytes: number
}

/** Sends events in batches, in order, until each is stored or dropped. `await using` closes it. */
export interface Sender extends AsyncDisposable {
  /**
   * Queues an event and returns its `eventId`. An object is serialized at once by `JSON.stringify`; bytes must be a
   * JSON object, and are kept. A missing `eventId` is generated (UUIDv7), a missing `projectId` is that of the client.
   * With a spool, the event survives the end of the process once this returns. An event that does not fit into the
   * queue or into a batch is dropped: it is counted and passed to `onDrop` before this returns.
   *
   * @throws {IngestError} `invalid-argument` for anything but an object, an object that cannot be serialized, and an
   *   invalid `eventId` (`issues` name the member); `malformed-body` for bytes that are not JSON; `store-closed`.
   */
  send(event: object): string
  /** Sends all queued events now. Resolves when they are stored or dropped, or the sender is closed. */
  flush(): Promise<void>
  stats(): SenderStats
  /**
   * Sends all queued events and closes the sender, after `deadlineMs` at the latest (default 10,000), or earlier if the
   * next retry would come after the deadline. Unsent events stay in the spool, or are dropped as `closed`; events in
   * flight may have been stored. A process warning counts them. The client stays open. Further calls wait for the same
   * close; their `deadlineMs` can only shorten it.
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
 * One batch is in flight at a time, so events are stored in the order in which they were sent. Only a pending `flush`
 * or `close` keeps the process alive. Close the sender before its client: on a closed client, the next attempt ends the
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
  const { spoolBytesMax = 1024 * 1024 * 1024 } = options
  // absolute, in case the process changes its working directory
  const directory = options.spool && resolve(options.spool)
  checkOptions({ flushMs, queueEventsMax, queueBytesMax })
  checkOptions({ spoolBytesMax }, spoolBytesMin)
  signal?.throwIfAborted()
  const { now = () => performance.now(), random = Math.random, sleep = sleepUnreferenced } = effects
  const { projectId } = client
  const makeEventId = createEventIds()
  const outcomes = createOutcomes(options)
  const spool = openSpool({ directory, projectId, bytesMax: spoolBytesMax })
  const queue = createSendQueue({
    eventsMax: queueEventsMax,
    bytesMax: queueBytesMax,
    spool,
    onUnreadable: (count) => outcomes.drop('damaged', [], count),
  })
  const loop = createSendLoop({
    queue,
    outcomes,
    submit: (body, signal) => client.submitBatch(body, { signal, retries: 0 }),
    onEnd: abort,
    effects: { now, random, sleep },
  })
  const parts: SenderParts = { projectId, directory, queue, outcomes, loop }
  const warnUnclosed = () => warnUnsent(parts, `The process ended before the sender of ${projectId} was closed, with`)
  const sendAll = () => {
    queue.makeDue()
    loop.wake()
  }
  const startTimer = createTimer(() => sleep(flushMs, loop.signal), sendAll)
  let closed: Promise<SenderStats> | undefined

  function abort(): void {
    loop.abort()
    sender.close({ deadlineMs: 0 })
  }

  const sender: Sender = {
    send(event) {
      if (closed) throw new IngestError('store-closed', 'This sender is closed.')
      const timestamp = options.stamp ? new Date().toISOString() : undefined
      const { eventId, bytes } = serializeEvent(event, { projectId, makeEventId, timestamp })
      const dropReason = queue.add(bytes)
      if (dropReason) outcomes.drop(dropReason, [{ bytes }])
      else {
        void startTimer()
        if (queue.isFull()) loop.wake()
      }
      return eventId
    },

    async flush() {
      if (queue.events() === 0 || loop.signal.aborted) return
      sendAll()
      await keepAlive(queue.whenRemoved())
    },

    stats: () => statsOf(parts),

    async close({ deadlineMs = closed ? Number.POSITIVE_INFINITY : 10_000 } = {}) {
      if (!(deadlineMs >= 0)) throw new IngestError('invalid-argument', 'deadlineMs must be a number from 0.')
      loop.endWithin(deadlineMs)
      closed ??= finish(parts).finally(() => {
        signal?.removeEventListener('abort', abort)
        openSenders.delete(warnUnclosed)
      })
      return closed
    },

    async [Symbol.asyncDispose]() {
      await sender.close()
    },
  }

  signal?.addEventListener('abort', abort)
  openSenders.add(warnUnclosed)
  outcomes.drop('damaged', [], spool.damaged)
  outcomes.drop('too_large', spool.tooLarge)
  if (queue.events() > 0) loop.wake()
  return sender
}

interface SenderParts {
  projectId: string
  /** The directory of the spool. */
  directory: string | undefined
  queue: SendQueue
  outcomes: Outcomes
  loop: SendLoop
}

function statsOf({ queue, outcomes, loop }: SenderParts): SenderStats {
  return {
    ...outcomes.counts(),
    queuedEvents: queue.events(),
    queuedBytes: queue.bytes(),
    ...loop.attempts(),
  }
}

/** Called for senders that are still open when the process ends normally; not after a signal or `process.exit`. */
const openSenders = new Set<() => void>()
process.on('beforeExit', () => {
  for (const warnUnclosed of openSenders) warnUnclosed()
  openSenders.clear()
})

async function finish(parts: SenderParts): Promise<SenderStats> {
  const { projectId, queue, outcomes, loop } = parts
  queue.makeDue()
  await keepAlive(loop.finish())
  warnUnsent(parts, `The sender of ${projectId} ended with`, loop.attempts().failure)
  outcomes.drop('closed', queue.close())
  return statsOf(parts)
}

/**
 * `… with 3 unsent events: 2 kept in data/spool for the next sender, 1 dropped.` Warns only if there are unsent events.
 */
function warnUnsent({ queue, directory }: SenderParts, start: string, failure?: unknown): void {
  const { kept, lost } = queue.unsent()
  const count = kept + lost
  if (count === 0) return
  const parts = [kept > 0 && `${kept} kept in ${directory} for the next sender`, lost > 0 && `${lost} dropped`]
  const events = `${count} unsent event${count === 1 ? '' : 's'}: ${parts.filter(Boolean).join(', ')}.`
  const reason = failure === undefined ? '' : ` The last attempt failed: ${(failure as Error).message}`
  process.emitWarning(`${start} ${events}${reason}`)
}

/** Returns a function that starts a timer unless it is running. */
function createTimer(sleep: () => Promise<unknown>, onTime: () => void): () => Promise<void> {
  let isRunning = false
  return async () => {
    if (isRunning) return
    isRunning = true
    try {
      await sleep()
    } catch {
      return
    }
    isRunning = false
    onTime()
  }
}

/** Keeps the process alive until the promise is settled; the sender's timers do not. */
async function keepAlive<T>(promise: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, timerMsMax)
  try {
    return await promise
  } finally {
    clearInterval(timer)
  }
}

function sleepUnreferenced(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, signal, false)
}

function checkOptions(options: Record<string, number>, least = 1): void {
  for (const [name, value] of Object.entries(options)) {
    if (!(Number.isSafeInteger(value) && value >= least)) {
      throw new IngestError('invalid-argument', `${name} must be an integer of at least ${least}.`)
    }
  }
}
