import { setMaxListeners } from 'node:events'
import { addAbortSignal, Readable } from 'node:stream'
import { type BatchResult, IngestError, type SubmitOptions } from '@ingest/core'
import { unexpectedAnswer } from '../http/error-from-response.ts'
import { accountsFor, fillBatch, fillsBatch } from './fill-batch.ts'
import { type PreparedEvent, prepareEvents, type RejectedInput, rejectEvent } from './prepare-events.ts'
import type { ValueForm } from './slice-values.ts'

/** What of an Ingest is needed to submit events; a client is told of the signal as well. */
export interface EventSubmitter {
  readonly projectId: string
  submitBatch(body: Uint8Array, options?: SubmitOptions & { signal?: AbortSignal }): Promise<BatchResult>
}

/** How far it is, and in the end what became of each event: `events` is the sum of the other three. */
export interface SubmittedEvents {
  /** Of the source, read so far. */
  bytes: number
  /** Of which it is known what became of them. */
  events: number
  accepted: number
  duplicates: number
  rejected: number
  /** How many of them were given an id. */
  madeIds: number
}

export interface SubmitEventsOptions {
  /** How many batches are in flight at once; 8 without. Only with 1 events are stored in the order of the source. */
  concurrency?: number
  /**
   * Whether an event without an `eventId` is given one (UUIDv7), so that submitting the source again stores it again. It
   * is rejected otherwise.
   */
  makeIds?: boolean
  /** Called often; what it throws ends the work. */
  onProgress?: (progress: SubmittedEvents) => void
  /** Told what was rejected, and where it stands in which kind of source; it is waited for. */
  onRejected?: (rejected: readonly RejectedInput[], form: ValueForm | undefined) => Promise<void> | void
  /** Ends the work, which rejects with its reason. Doing it again goes on: what is stored counts as a duplicate. */
  signal?: AbortSignal
}

const concurrencyDefault = 8

/**
 * Submits all events of a text of any size, as {@link prepareEvents} finds them, in full batches, and resolves when it is
 * known what became of each. Nothing is dropped: reading waits for the answers, and what is read waits for others only
 * as long as a batch is in flight. A missing `projectId` is that of `ingest`.
 *
 * The first batch that fails ends the work, after the retries of the client; a stream is destroyed then. Doing it again
 * goes on, as the ids are the same.
 *
 * @throws {IngestError} what `submitBatch` refuses with; `malformed-body`, once what stands before the fault is submitted;
 *   `unexpected-answer`; `invalid-argument`. What the source fails with, and the reason of the signal.
 */
export async function submitEvents(
  ingest: EventSubmitter,
  source: AsyncIterable<Uint8Array>,
  options: SubmitEventsOptions = {},
): Promise<SubmittedEvents> {
  const { concurrency = concurrencyDefault, makeIds, onProgress, onRejected, signal } = options
  if (!(Number.isSafeInteger(concurrency) && concurrency > 0)) {
    throw new IngestError('invalid-argument', 'concurrency is a whole number from 1.')
  }
  const { projectId } = ingest
  const failing = new AbortController()
  const either = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal
  // each batch listens to it, and Node would take that for a leak
  setMaxListeners(0, either)
  const done: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }
  const flights = new Set<Promise<void>>()
  let form: ValueForm | undefined
  let waiting: PreparedEvent[] = []
  let waitingBytes = 0

  async function reject(rejected: readonly RejectedInput[]): Promise<void> {
    if (rejected.length === 0) return
    done.events += rejected.length
    done.rejected += rejected.length
    await onRejected?.(rejected, form)
  }

  async function submit(body: Buffer, events: readonly PreparedEvent[]): Promise<void> {
    const result = await ingest.submitBatch(body, { signal: either })
    if (!accountsFor(result, events.length)) throw unexpectedAnswer('it does not say what became of each event')
    done.events += result.accepted + result.duplicates
    done.accepted += result.accepted
    done.duplicates += result.duplicates
    done.madeIds += events.filter(({ hasMadeId }) => hasMadeId).length
    await reject(result.rejected.map((rejection) => rejectEvent(events[rejection.index] as PreparedEvent, rejection)))
    onProgress?.({ ...done })
  }

  function launch(): void {
    const { body, count } = fillBatch(waiting)
    const events = waiting.slice(0, count)
    waiting = waiting.slice(count)
    waitingBytes = waiting.reduce((sum, { bytes }) => sum + bytes.length, 0)
    const flight = submit(body, events)
      .catch((error) => failing.abort(error))
      .then(() => {
        flights.delete(flight)
        launchIdle()
      })
    flights.add(flight)
  }

  /** While nothing is in flight, nothing waits: the source may be slow. */
  function launchIdle(): void {
    if (flights.size === 0 && waiting.length > 0 && !either.aborted) launch()
  }

  /** A batch that ends may launch what waits, so it is looked at anew after each. */
  async function launchWhile(isWanted: () => boolean): Promise<void> {
    while (isWanted() && !either.aborted) {
      if (flights.size < concurrency) launch()
      else await Promise.race(flights)
    }
  }

  async function readAll(): Promise<void> {
    const stream = source instanceof Readable ? addAbortSignal(either, source) : source
    for await (const piece of prepareEvents(stream, { projectId, makeIds })) {
      either.throwIfAborted()
      form = piece.form
      done.bytes += piece.bytes
      await reject(piece.rejected)
      for (const event of piece.events) {
        waiting.push(event)
        waitingBytes += event.bytes.length
        await launchWhile(() => fillsBatch(waiting.length, waitingBytes))
        either.throwIfAborted()
      }
      launchIdle()
      onProgress?.({ ...done })
    }
  }

  const fault = await readAll().then(
    () => undefined,
    (error) => ({ error }),
  )
  await launchWhile(() => waiting.length > 0)
  await Promise.all(flights)
  either.throwIfAborted()
  if (fault) throw fault.error
  return done
}
