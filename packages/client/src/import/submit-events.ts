import { setMaxListeners } from 'node:events'
import { addAbortSignal, Readable } from 'node:stream'
import { type BatchResult, IngestError, type SubmitOptions } from '@ingest/core'
import { fillBatch, isBatchFull, isValidResult } from '../batch/fill-batch.ts'
import { unexpectedResponse } from '../http/error-from-response.ts'
import { type PreparedEvent, prepareEvents, type RejectedInput, rejectEvent } from './prepare-events.ts'
import type { ValueForm } from './slice-values.ts'

/** The part of an Ingest that `submitEvents` needs; a client also gets the signal. */
export interface EventSubmitter {
  readonly projectId: string
  submitBatch(body: Uint8Array, options?: SubmitOptions & { signal?: AbortSignal }): Promise<BatchResult>
}

/** Progress and result. `events` is the sum of `accepted`, `duplicates` and `rejected`. */
export interface SubmittedEvents {
  /** Bytes of the source read so far. */
  bytes: number
  /** Events with an outcome. */
  events: number
  accepted: number
  duplicates: number
  rejected: number
  /** Events with a generated id. */
  madeIds: number
}

export interface SubmitEventsOptions {
  /** The most batches in flight. Default 8. Events are stored in the order of the source only with 1. */
  concurrency?: number
  /**
   * Generates missing ids (UUIDv7), so that submitting the source again stores those events again. Default false, which
   * rejects events without an `eventId`.
   */
  makeIds?: boolean
  /** Called often. An error that it throws ends the call. */
  onProgress?: (progress: SubmittedEvents) => void
  /** Called with rejected events; reading continues when its promise resolves. */
  onRejected?: (rejected: readonly RejectedInput[], form: ValueForm | undefined) => Promise<void> | void
  /** Ends the call, which rejects with the reason. Submitting again is safe: stored events count as duplicates. */
  signal?: AbortSignal
}

const concurrencyDefault = 8

/**
 * Submits all events of a text of any size, as {@link prepareEvents} reads them, and resolves when every event has an
 * outcome. Batches are full unless the source is slower than the server. Reading pauses while `concurrency` batches are in
 * flight. A missing `projectId` is that of `ingest`.
 *
 * The first batch that fails, after the retries of the client, ends the call and destroys a stream. Submitting the source
 * again is safe, as the ids stay the same.
 *
 * @throws {IngestError} the errors of `submitBatch`; `malformed-body`, once the events before the fault are submitted;
 *   `unexpected-response`; `invalid-argument`. Also the error of the source, and the reason of the signal.
 */
export async function submitEvents(
  ingest: EventSubmitter,
  source: AsyncIterable<Uint8Array>,
  options: SubmitEventsOptions = {},
): Promise<SubmittedEvents> {
  const { concurrency = concurrencyDefault, makeIds, onProgress, signal } = options
  if (!(Number.isSafeInteger(concurrency) && concurrency > 0)) {
    throw new IngestError('invalid-argument', 'concurrency must be an integer of at least 1.')
  }
  const failing = new AbortController()
  const ending = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal
  // every batch in flight adds a listener, more than Node expects
  setMaxListeners(0, ending)
  const done: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }
  const submission: Submission = { ingest, options, done, form: undefined, ending }
  const queue = createBatchQueue(
    concurrency,
    ending,
    (body, events) => submit(submission, body, events),
    (error) => failing.abort(error),
  )

  async function readAll(): Promise<void> {
    const stream = source instanceof Readable ? addAbortSignal(ending, source) : source
    for await (const { form, bytes, events, rejected } of prepareEvents(stream, {
      projectId: ingest.projectId,
      makeIds,
    })) {
      ending.throwIfAborted()
      submission.form = form
      done.bytes += bytes
      await countRejected(submission, rejected)
      for (const event of events) {
        await queue.add(event)
        ending.throwIfAborted()
      }
      queue.sendIfIdle()
      onProgress?.({ ...done })
    }
  }

  const fault = await readAll().then(
    () => undefined,
    (error) => ({ error }),
  )
  await queue.drain()
  ending.throwIfAborted()
  if (fault) throw fault.error
  return done
}

interface Submission {
  ingest: EventSubmitter
  options: SubmitEventsOptions
  done: SubmittedEvents
  form: ValueForm | undefined
  ending: AbortSignal
}

async function submit(submission: Submission, body: Buffer, events: readonly PreparedEvent[]): Promise<void> {
  const { ingest, options, done, ending } = submission
  const result = await ingest.submitBatch(body, { signal: ending })
  if (!isValidResult(result, events.length)) throw unexpectedResponse('it lacks the outcome of an event')
  done.events += result.accepted + result.duplicates
  done.accepted += result.accepted
  done.duplicates += result.duplicates
  done.madeIds += events.filter(({ hasMadeId }) => hasMadeId).length
  const rejected = result.rejected.map((each) => rejectEvent(events[each.index] as PreparedEvent, each))
  await countRejected(submission, rejected)
  options.onProgress?.({ ...done })
}

async function countRejected({ options, done, form }: Submission, rejected: readonly RejectedInput[]): Promise<void> {
  if (rejected.length === 0) return
  done.events += rejected.length
  done.rejected += rejected.length
  await options.onRejected?.(rejected, form)
}

/** Groups events into batches, and sends several at once. */
interface BatchQueue {
  /** Resolves when another event may be added. */
  add(event: PreparedEvent): Promise<void>
  /** Sends an incomplete batch unless others are in flight, so that a slow source is sent without delay. */
  sendIfIdle(): void
  /** Sends the rest, and resolves when no batch is in flight. */
  drain(): Promise<void>
}

function createBatchQueue(
  concurrency: number,
  ending: AbortSignal,
  send: (body: Buffer, events: readonly PreparedEvent[]) => Promise<void>,
  onFailure: (error: unknown) => void,
): BatchQueue {
  const inFlight = new Set<Promise<void>>()
  let queued: PreparedEvent[] = []
  let queuedBytes = 0

  function sendNext(): void {
    const { body, count } = fillBatch(queued)
    const events = queued.slice(0, count)
    queued = queued.slice(count)
    queuedBytes = queued.reduce((sum, { bytes }) => sum + bytes.length, 0)
    const flight = send(body, events)
      .catch(onFailure)
      .then(() => {
        inFlight.delete(flight)
        sendIfIdle()
      })
    inFlight.add(flight)
  }

  function sendIfIdle(): void {
    if (inFlight.size === 0 && queued.length > 0 && !ending.aborted) sendNext()
  }

  /** Evaluates the condition after each batch, as a batch that ends may send queued events. */
  async function sendWhile(isWanted: () => boolean): Promise<void> {
    while (isWanted() && !ending.aborted) {
      if (inFlight.size < concurrency) sendNext()
      else await Promise.race(inFlight)
    }
  }

  return {
    add(event) {
      queued.push(event)
      queuedBytes += event.bytes.length
      return sendWhile(() => isBatchFull(queued.length, queuedBytes))
    },

    sendIfIdle,

    async drain() {
      await sendWhile(() => queued.length > 0)
      await Promise.all(inFlight)
    },
  }
}
