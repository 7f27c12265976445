import { setTimeout as wait } from 'node:timers/promises'
import { type BatchResult, IngestError, type Issue } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'
import type { Client } from '../client.ts'
import { unexpectedAnswer } from '../http/error-from-response.ts'
import type { RetryEffects } from '../http/retry.ts'
import { createBackoff } from '../http/retry.ts'
import { createEventIds } from '../import/event-ids.ts'
import { accountsFor, eventBytesMax, fillBatch, fillsBatch } from '../import/fill-batch.ts'
import { serializeEvent } from '../import/serialize-event.ts'
import { decideNext, type Outcome } from './decide-next.ts'
import { openSpool, type SpooledEvent } from './spool.ts'

/**
 * Why an event is given up: the queue had no room for it (`queue_overflow`); the server rejected it (`rejected`); it is
 * too large for a batch, or the server answered its batch with 413 (`too_large`) or 400 (`bad_request`); the sender
 * ended before it was known to be stored, and there is no spool (`closed`); its line in the spool cannot be read
 * (`damaged`).
 */
export type DropReason = 'bad_request' | 'closed' | 'damaged' | 'queue_overflow' | 'rejected' | 'too_large'

/** An event that the server will never store, and why. */
export interface Rejection {
  event: JsonObject
  issues: readonly Issue[]
}

export interface SenderOptions {
  /** How long an event waits for others to share its batch. Default 2,000 ms. */
  flushMs?: number | undefined
  /** How many events may be queued, including those in flight; more are dropped. Default 10,000. */
  queueEventsMax?: number | undefined
  /** How many bytes they may have. Default 16 MiB. */
  queueBytesMax?: number | undefined
  /** A directory, of this sender alone, that keeps what waits over a crash or a restart of the process. */
  spool?: string | undefined
  /** Called once for each batch of which the server rejected some. They are not sent again. */
  onRejected?: ((rejections: Rejection[]) => void) | undefined
  /** Called for all that is given up, whatever the reason, with the events as they would have been sent. */
  onDrop?: ((reason: DropReason, events: JsonObject[]) => void) | undefined
  /**
   * Called when a batch was not taken and will be sent again in `pauseMs`: also before the five minutes after a 401.
   */
  onRetry?: ((error: unknown, pauseMs: number) => void) | undefined
  /** Ends the sender at once, as `close({ deadlineMs: 0 })` does. */
  signal?: AbortSignal | undefined
}

export interface SenderStats {
  /** Events that are stored now and were not before. */
  accepted: number
  /** Events that had been stored already: sent by somebody else, or by a try whose answer was lost. */
  duplicates: number
  dropped: Readonly<Record<DropReason, number>>
  /** What waits, or is in flight. */
  queuedEvents: number
  queuedBytes: number
  /** How often a batch was sent again. */
  retries: number
  /** Why the last try failed; undefined once one has succeeded. */
  failure: unknown
}

/** Sends events in batches, in their order, until each is stored or there is a reason why it cannot be. */
export interface Sender {
  /**
   * Takes an event and returns its `eventId` at once; it is written as `JSON.stringify` does, so it may be changed
   * afterwards. Bytes are those of a JSON object, and are kept as they are. A missing `eventId` is made (UUIDv7), a
   * missing `projectId` is that of the client. With a spool the event outlives the process from now on. An event that
   * exceeds the queue, or is larger than a batch, is dropped: counted and passed to `onDrop`, before this returns.
   *
   * @throws {IngestError} `invalid-argument` for what is no object, cannot be written as JSON, or has an unusable
   *   `eventId` (`issues` name the member); `malformed-body` for bytes that are no JSON; `store-closed` once closed.
   */
  send(event: JsonObject | Uint8Array): string
  /** Sends what waits without waiting for more. Resolves when it is stored or dropped, or when the sender ends. */
  flush(): Promise<void>
  stats(): SenderStats
  /**
   * Takes no further events, sends what waits, and ends everything after `deadlineMs`, 10,000 without; earlier when
   * there will be no further try within it. What is left stays in the spool, or is dropped as `closed`: those in flight
   * may have been stored. The client stays open.
   */
  close(options?: { deadlineMs?: number }): Promise<SenderStats>
}

/**
 * Three lines to send events:
 *
 * ```ts
 * const client = createClient({ url: 'https://ingest.example', projectId: 'game-1', key: process.env.INGEST_KEY })
 * const sender = createSender(client, { spool: 'data/spool' })
 * sender.send({ type: 'round.start', buildId: '2026.11.20' })
 * ```
 *
 * One batch is in flight at a time, so events are stored in the order in which they were sent. Timers do not keep the
 * process alive, unless somebody waits for `flush` or `close`.
 *
 * @throws {IngestError} `invalid-argument`, also while another process uses the spool, or if it is of another project.
 */
export function createSender(client: SenderClient, options: SenderOptions = {}): Sender {
  return createSenderWith(client, options, {})
}

/** What a sender needs of a client. */
export type SenderClient = Pick<Client<unknown>, 'projectId' | 'submitBatch'>

/** A sender whose time and chance are given. */
export function createSenderWith(client: SenderClient, options: SenderOptions, effects: RetryEffects): Sender {
  const { flushMs = 2000, queueEventsMax = 10_000, queueBytesMax = 16 * 1024 * 1024, signal } = options
  checkOptions({ flushMs, queueEventsMax, queueBytesMax })
  signal?.throwIfAborted()
  const { now = () => performance.now(), random = Math.random, sleep = sleepUntil } = effects
  const { projectId } = client
  const makeEventId = createEventIds()
  const backoff = createBackoff({ random })
  const spool = options.spool === undefined ? undefined : openSpool(options.spool, projectId)
  const ending = new AbortController()

  /** The first ones are in flight while there is a batch. */
  let queue: SpooledEvent[] = spool?.left ?? []
  let queuedBytes = bytesOf(queue)
  // events are numbered as they come, so that one number says which of them a flush is about
  let taken = queue.length
  let gone = 0
  /** Events before this number wait for no others. */
  let dueUntil = taken
  let isTimed = false
  let waiting: { until: number; resolve: () => void }[] = []

  let working: Promise<void> | undefined
  let wakeAt = 0
  let deadlineAt = Number.POSITIVE_INFINITY
  let closed: Promise<SenderStats> | undefined

  const dropped = { bad_request: 0, closed: 0, damaged: 0, queue_overflow: 0, rejected: 0, too_large: 0 }
  let accepted = 0
  let duplicates = 0
  let retries = 0
  let failure: unknown

  function drop(reason: DropReason, events: readonly { bytes: Buffer }[], count = events.length): void {
    if (count === 0) return
    dropped[reason] += count
    tell(options.onDrop, reason, events.map(eventOf))
  }

  /** Makes sure that what waits is sent in a while. */
  function startTimer(): void {
    if (isTimed) return
    isTimed = true
    sleep(flushMs, ending.signal).then(
      () => {
        isTimed = false
        dueUntil = taken
        work()
      },
      () => {},
    )
  }

  function isDue(): boolean {
    return !ending.signal.aborted && (gone < dueUntil || fillsBatch(queue.length, queuedBytes))
  }

  function work(): void {
    if (!working && isDue()) working = sendBatches()
  }

  async function sendBatches(): Promise<void> {
    do await sendBatch()
    while (isDue())
    working = undefined
  }

  /** Sends one batch, always the same bytes, until it is known what became of it or the sender ends. */
  async function sendBatch(): Promise<void> {
    const { body, count } = fillBatch(queue)
    while (!ending.signal.aborted) {
      const outcome = await submit(body, count)
      // a try that was ended says nothing
      if ('error' in outcome && ending.signal.aborted) return
      const next = decideNext(outcome)
      if (next.what === 'settle' || next.what === 'drop') {
        backoff.reset()
        if (next.what === 'settle') settle(next.result)
        else drop(next.reason, queue.slice(0, count))
        failure = 'error' in outcome ? outcome.error : undefined
        forget(count)
        return
      }
      if (next.what === 'pause') backoff.reset()
      await pause('error' in outcome && outcome.error, next.what === 'pause' ? next.ms : backoff.next(next.floorMs))
    }
  }

  async function submit(body: Buffer, count: number): Promise<Outcome> {
    try {
      const result = await client.submitBatch(body, { signal: ending.signal, retries: 0 })
      if (!accountsFor(result, count)) throw unexpectedAnswer('it does not say what became of each event')
      return { result }
    } catch (error) {
      return { error }
    }
  }

  function settle(result: BatchResult): void {
    accepted += result.accepted
    duplicates += result.duplicates
    if (result.rejected.length === 0) return
    const rejected = result.rejected.map(({ index, issues }) => ({ event: queue[index] as SpooledEvent, issues }))
    tell(
      options.onRejected,
      rejected.map(({ event, issues }) => ({ event: eventOf(event), issues })),
    )
    drop(
      'rejected',
      rejected.map(({ event }) => event),
    )
  }

  /** The first events of the queue are done with. */
  function forget(count: number): void {
    const events = queue.splice(0, count)
    gone += events.length
    queuedBytes -= bytesOf(events)
    const last = events.findLast(({ spooledTo }) => spooledTo)?.spooledTo
    if (last) spool?.settle(last)
    waiting = waiting.filter(({ until, resolve }) => {
      if (until <= gone) resolve()
      return until > gone
    })
  }

  async function pause(error: unknown, ms: number): Promise<void> {
    failure = error
    wakeAt = now() + ms
    // nobody waits for a try that comes too late
    if (wakeAt >= deadlineAt) return ending.abort()
    tell(options.onRetry, error, ms)
    await sleep(ms, ending.signal).catch(() => {})
    wakeAt = 0
    if (!ending.signal.aborted) retries++
  }

  function stats(): SenderStats {
    return {
      accepted,
      duplicates,
      dropped: { ...dropped },
      queuedEvents: queue.length,
      queuedBytes,
      retries,
      failure,
    }
  }

  async function shut(deadlineMs: number): Promise<SenderStats> {
    dueUntil = taken
    deadlineAt = now() + deadlineMs
    if (Math.max(wakeAt, now()) >= deadlineAt) ending.abort()
    else sleep(deadlineMs, ending.signal).then(leave, () => {})
    work()
    await working
    ending.abort()
    signal?.removeEventListener('abort', leave)
    const lost = queue.filter(({ spooledTo }) => !spooledTo)
    queue = queue.filter(({ spooledTo }) => spooledTo)
    queuedBytes = bytesOf(queue)
    drop('closed', lost)
    spool?.close()
    for (const { resolve } of waiting) resolve()
    return stats()
  }

  function leave(): void {
    ending.abort()
    sender.close({ deadlineMs: 0 })
  }

  const sender: Sender = {
    send(event) {
      if (closed) throw new IngestError('store-closed', 'This sender is closed.')
      const { eventId, bytes } = serializeEvent(event, projectId, makeEventId)
      if (bytes.length > eventBytesMax) {
        drop('too_large', [{ bytes }])
      } else if (queue.length >= queueEventsMax || queuedBytes + bytes.length > queueBytesMax) {
        drop('queue_overflow', [{ bytes }])
      } else {
        queue.push({ bytes, spooledTo: spool?.append(bytes) })
        queuedBytes += bytes.length
        taken++
        startTimer()
        if (fillsBatch(queue.length, queuedBytes)) work()
      }
      return eventId
    },

    async flush() {
      if (gone >= taken || ending.signal.aborted) return
      dueUntil = taken
      work()
      const until = taken
      await stayAlive(new Promise<void>((resolve) => waiting.push({ until, resolve })))
    },

    stats,

    async close({ deadlineMs = 10_000 } = {}) {
      if (!(deadlineMs >= 0)) throw new IngestError('invalid-argument', 'deadlineMs is a number from 0.')
      closed ??= stayAlive(shut(deadlineMs))
      return closed
    },
  }

  signal?.addEventListener('abort', leave)
  drop('damaged', [], spool?.damaged)
  drop('too_large', spool?.tooLarge ?? [])
  if (queue.length > 0) work()
  return sender
}

function bytesOf(events: readonly { bytes: Buffer }[]): number {
  return events.reduce((sum, { bytes }) => sum + bytes.length, 0)
}

function eventOf({ bytes }: { bytes: Buffer }): JsonObject {
  return JSON.parse(bytes.toString())
}

/** Calls what the embedder gave; what goes wrong in there is told to the process and stops nothing here. */
function tell<Args extends unknown[]>(callback: ((...args: Args) => void) | undefined, ...args: Args): void {
  if (!callback) return
  const call = async () => callback(...args)
  call().catch((error) => process.emitWarning(`A callback of the sender failed: ${error}`))
}

/** Keeps the process alive until the promise is settled: sockets and timers of a pause may not. */
async function stayAlive<T>(promise: Promise<T>): Promise<T> {
  const timer = setInterval(() => {}, timerMsMax)
  try {
    return await promise
  } finally {
    clearInterval(timer)
  }
}

/** The longest that a timer of Node can wait for; longer, and it does not wait at all. */
const timerMsMax = 2 ** 31 - 1

async function sleepUntil(ms: number, signal: AbortSignal): Promise<void> {
  for (let left = ms; left > 0; left -= timerMsMax) {
    await wait(Math.min(left, timerMsMax), undefined, { signal, ref: false })
  }
}

function checkOptions(options: Record<string, number>): void {
  for (const [name, value] of Object.entries(options)) {
    if (!(Number.isSafeInteger(value) && value > 0)) {
      throw new IngestError('invalid-argument', `${name} is a whole number from 1.`)
    }
  }
}
