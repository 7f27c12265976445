import { isUtf8 } from 'node:buffer'
import { setMaxListeners } from 'node:events'
import { addAbortSignal, Readable } from 'node:stream'
import { type BatchResult, batchBytesMax, IngestError, type SubmitOptions } from '@ingest/core'
import { column, scanBatch, wordsPerEvent } from '@ingest/core/internal'
import { createEventIds } from '../batch/event-ids.ts'
import { checkResult, fillBatch } from '../batch/fill-batch.ts'
import { createValueGroups, type ValueGroup, type ValueGroups } from './group-values.ts'
import {
  type EventDefaults,
  type PreparedEvent,
  prepareValues,
  type RejectedInput,
  rejectEvent,
} from './prepare-events.ts'
import { createValueSlicer, type SlicedValue, type ValueForm } from './slice-values.ts'

/** The part of an Ingest that `submitEvents` needs; a client also receives the signal. */
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

/** Options of `submitEvents`. */
export interface SubmitEventsOptions {
  /** Maximum number of batches in flight. Default: 8. Events are stored in the order of the source only with 1. */
  concurrency?: number
  /**
   * Generates missing ids (UUIDv7). Submitting the source again then stores those events again. Default: false; events
   * without an `eventId` are rejected.
   */
  makeIds?: boolean
  /** Called often. If it throws, the call rejects with that error. */
  onProgress?: (progress: SubmittedEvents) => void
  /** Called with rejected events; reading continues when its promise resolves. */
  onRejected?: (rejected: readonly RejectedInput[], form: ValueForm | undefined) => Promise<void> | void
  /** Cancels the call, which rejects with the reason. Submitting again is safe: stored events count as duplicates. */
  signal?: AbortSignal
}

const concurrencyDefault = 8

/**
 * Submits all events of a text of any size, in the forms that {@link prepareEvents} reads, and resolves when every
 * event has an outcome. Batches are full unless the source is slower than the server. Reading pauses while
 * `concurrency` batches are in flight. Events without a `projectId` get that of `ingest`.
 *
 * If a batch fails after the retries of the client, the call ends and destroys a stream. Submitting the source again is
 * safe, except for events with generated ids.
 *
 * @throws {IngestError} the errors of `submitBatch`; `malformed-body`, once the events before the fault are submitted;
 *   `unexpected-response`; `invalid-argument`. Also the error of the source, and the reason of the signal.
 */
export async function submitEvents(
  ingest: EventSubmitter,
  source: AsyncIterable<Uint8Array>,
  options: SubmitEventsOptions = {},
): Promise<SubmittedEvents> {
  const { concurrency = concurrencyDefault, makeIds = false, onProgress, signal } = options
  if (!(Number.isSafeInteger(concurrency) && concurrency > 0)) {
    throw new IngestError('invalid-argument', 'concurrency must be an integer of at least 1.')
  }
  const failing = new AbortController()
  const ending = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal
  // every batch in flight adds a listener: more than Node's default limit
  setMaxListeners(0, ending)
  const slicer = createValueSlicer()
  const groups = createValueGroups()
  const done: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }
  const defaults = { projectId: ingest.projectId, makeEventId: makeIds ? createEventIds() : undefined }
  const { form } = slicer
  const submission: Submission = { ingest, options, done, defaults, form, failing, ending, fault: undefined }
  const queue = createGroupQueue(submission, groups, concurrency)

  async function readAll(): Promise<void> {
    const stream = source instanceof Readable ? addAbortSignal(ending, source) : source
    for await (const chunk of stream) {
      ending.throwIfAborted()
      done.bytes += chunk.length
      for (const value of slicer.push(chunk)) groups.add(value)
      await queue.sendFull()
      if (submission.fault) return
      onProgress?.({ ...done })
    }
    for (const value of slicer.end()) groups.add(value)
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
  defaults: EventDefaults
  form: () => ValueForm | undefined
  /** Aborts `ending`, as does the caller's signal. */
  failing: AbortController
  ending: AbortSignal
  /** The error of an array that cannot be read further. */
  fault: { error: unknown } | undefined
}

async function submitGroup(submission: Submission, group: ValueGroup): Promise<void> {
  const { body, values } = group
  if (areEvents(group, submission.ingest.projectId)) return submit(submission, body, values.map(toPrepared))
  const { events, rejected, fault } = prepareValues(() => values, submission.form, submission.defaults)
  submission.fault = fault
  await countRejected(submission, rejected)
  // added members may overflow a group into a second batch
  for (let rest = events; rest.length > 0; ) {
    const { body, count } = fillBatch(rest)
    await submit(submission, body, rest.slice(0, count))
    rest = rest.slice(count)
  }
}

/**
 * Whether all values are valid events with an id and of this project: they need no added members, so they are not
 * parsed.
 */
function areEvents({ body, values }: ValueGroup, projectId: string): boolean {
  if (body.length > batchBytesMax || !isUtf8(body)) return false
  const rows = scanBatch(body, projectId, anyHashKey)?.rows
  if (rows?.length !== values.length * wordsPerEvent) return false
  // a value may be part of an event, or two events
  return values.every(({ start, end }, i) => {
    const at = i * wordsPerEvent
    return rows[at + column.start] === start && rows[at + column.end] === end
  })
}

/** Any key: the hashes are not used. */
const anyHashKey = Buffer.alloc(16)

function toPrepared({ at, source, start, end }: SlicedValue): PreparedEvent {
  return { at, bytes: source.subarray(start, end), hasMadeId: false }
}

async function submit(submission: Submission, body: Buffer, events: readonly PreparedEvent[]): Promise<void> {
  const { ingest, options, done, ending } = submission
  const result = checkResult(await ingest.submitBatch(body, { signal: ending }), events.length)
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
  await options.onRejected?.(rejected, form())
  options.onProgress?.({ ...done })
}

/** Sends several groups concurrently. */
function createGroupQueue(submission: Submission, groups: ValueGroups, concurrency: number) {
  const { ending, failing } = submission
  const inFlight = new Set<Promise<void>>()
  const isOver = () => ending.aborted || submission.fault !== undefined

  function sendNext(): void {
    const sent = submitGroup(submission, groups.next() as ValueGroup).catch((error) => failing.abort(error))
    const flight = sent.then(() => {
      inFlight.delete(flight)
      sendIfIdle()
      if (inFlight.size === 0 && submission.fault) failing.abort(submission.fault.error)
    })
    inFlight.add(flight)
  }

  /** Sends a partial batch if the source is slow. */
  function sendIfIdle(): void {
    if (inFlight.size === 0 && !groups.isEmpty() && !isOver()) sendNext()
  }

  /** Evaluates the condition before each group, because the end of a group may send another. */
  async function sendWhile(isWanted: () => boolean): Promise<void> {
    while (isWanted() && !isOver()) {
      if (inFlight.size < concurrency) sendNext()
      else await Promise.race(inFlight)
    }
  }

  return {
    /** Resolves when all full groups are in flight. If nothing is in flight, sends a partial group. */
    async sendFull(): Promise<void> {
      await sendWhile(groups.hasFull)
      sendIfIdle()
    },

    /** Sends the rest, and resolves when no group is in flight. */
    async drain(): Promise<void> {
      await sendWhile(() => !groups.isEmpty())
      await Promise.all(inFlight)
    },
  }
}
