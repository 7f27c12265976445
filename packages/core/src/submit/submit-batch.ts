import { isUint8Array } from 'node:util/types'
import { IngestError } from '../error.ts'
import { type BatchInput, type BatchResult, batchBody } from '../events/batch.ts'
import type { CheckBySchema } from '../events/event-schemas.ts'
import { parseBatch } from '../events/parse-batch.ts'
import type { EventStore } from '../store.ts'
import type { BatchEvents, StoreCommit } from '../store-types.ts'
import type { JsonObject } from '../validation.ts'
import { bytesOfEvents, countEvents, encodeEvents } from './batch-events.ts'
import { classifyEvents, type InvalidEvent, type Rejection } from './classify-events.ts'
import { scanBatch } from './scan-batch.ts'

/** Options of `submitBatch`. */
export interface SubmitOptions {
  /**
   * Called with the number of events of a well-formed batch before any is checked, for rate limits. If it throws or
   * rejects, nothing is stored and `submitBatch` rejects with that error.
   */
  admit?: (eventCount: number) => void | Promise<void>
  /**
   * Whether the store may transfer the memory of the body, given as bytes, to another thread. This saves a copy and
   * detaches the body. Default: false.
   */
  mayTransfer?: boolean
  /** The id of the key that the batch was sent with, shown by `listRejected`. Default: none. */
  keyId?: string | null
}

/** The outcome of one batch. */
export interface CountedBatch {
  /** In milliseconds since 1970. */
  receivedAt: number
  accepted: number
  duplicates: number
  /** The valid events, and for each whether this batch stored it. */
  events: BatchEvents
  stored: readonly boolean[]
  rejections: readonly Rejection[]
  /** With the text of rejected events; undefined if none are kept. */
  body: Buffer | undefined
  keyId: string | null
}

export interface BatchCounter {
  /** Whether the text of rejected events is kept. */
  readonly keepEvents: boolean
  count(projectId: string, batch: CountedBatch): void
}

export interface SubmitContext {
  store: Pick<EventStore, 'append' | 'known'>
  /** The secret key of the hashes of ids, 16 bytes. */
  hashKey: Uint8Array
  /** The embedder's own rules; undefined if there are none. */
  checkBySchema: CheckBySchema | undefined
  /** Milliseconds since 1970. */
  now(): number
  counter: BatchCounter
}

/** The result of a batch, with data for metrics. */
export interface SubmitReport {
  result: BatchResult
  /** Duplicates that differ from the stored event, for a metric. */
  conflicts: number
  /** Bytes of the accepted events. */
  storedBytes: number
  /** The builds that the batch froze. */
  frozen: readonly string[]
  /** How long the store took for the append, in milliseconds; 0 without an append. */
  appendMs: number
  /** The commit of the append, which other requests may share; undefined if the store does not report it. */
  commit: StoreCommit | undefined
}

/**
 * Decides the outcome of every event of a batch: unidentified events are rejected, stored ids are duplicates, other
 * invalid events are rejected, and the rest is stored.
 */
export async function submitBatch(
  context: SubmitContext,
  projectId: string,
  input: Uint8Array | BatchInput<unknown>,
  { admit, mayTransfer = false, keyId = null }: SubmitOptions,
): Promise<SubmitReport> {
  // callers without types may pass anything, and nothing may fail after the append
  if (keyId !== null && typeof keyId !== 'string') throw new IngestError('invalid-argument', 'keyId must be a string.')
  const { store, now, counter } = context
  const decided = decide(context, projectId, input, admit)
  // awaits only a promise, so that the append starts in this turn and a later close waits for it
  const { body, count, unidentified, invalid, valid } = decided instanceof Promise ? await decided : decided
  // comes before the append: a valid event must not make an invalid one of the same batch a duplicate
  const isKnown =
    invalid.length > 0
      ? await store.known(
          projectId,
          invalid.map(({ eventId }) => eventId),
        )
      : []
  const rejections = [...unidentified, ...invalid.filter((_, i) => !isKnown[i])]
  rejections.sort((a, b) => a.rejection.index - b.rejection.index)
  // a copy, as the append may transfer the body to another thread
  const bodyKept = counter.keepEvents && rejections.length > 0 ? Buffer.from(body) : undefined
  const receivedAt = now()
  const appendedAt = performance.now()
  let commit: StoreCommit | undefined
  const { stored, conflicts, frozen } =
    countEvents(valid) === 0
      ? { stored: [], conflicts: 0, frozen: [] }
      : await store.append(projectId, {
          body,
          mayTransfer: mayTransfer || !isUint8Array(input),
          events: valid,
          receivedAt,
          onCommit(reported) {
            commit = reported
          },
        })
  const appendMs = stored.length === 0 ? 0 : performance.now() - appendedAt
  let accepted = 0
  for (const isStored of stored) if (isStored) accepted++
  const rejected = rejections.map(({ rejection }) => rejection)
  const duplicates = count - accepted - rejected.length
  const counted = { receivedAt, accepted, duplicates, events: valid, stored, rejections, body: bodyKept, keyId }
  counter.count(projectId, counted)
  const result = { accepted, duplicates, rejected }
  return { result, conflicts, storedBytes: bytesOfEvents(valid, stored), frozen, appendMs, commit }
}

/** A batch, decided by its content alone, before the store is read. */
interface DecidedBatch {
  body: Buffer
  /** The number of its events, including repeats. */
  count: number
  unidentified: Rejection[]
  invalid: InvalidEvent[]
  /** No id occurs twice. */
  valid: BatchEvents
}

/** A separate function, so that parsed events can be garbage-collected while the append waits for the disk. */
function decide(
  { checkBySchema, hashKey }: SubmitContext,
  projectId: string,
  input: Uint8Array | BatchInput<unknown>,
  admit: SubmitOptions['admit'],
): DecidedBatch | Promise<DecidedBatch> {
  const body = batchBody(input)
  // schemas need the values of events, which the scanner does not create
  const scanned = checkBySchema ? undefined : scanBatch(body, projectId, hashKey)
  const events = scanned ? [] : parseBatch(body)
  const count = scanned ? countEvents(scanned) : events.length

  function classify(): DecidedBatch {
    if (scanned) return { body, count, unidentified: [], invalid: [], valid: scanned }
    const parseWhole = ({ start, end }: { start: number; end: number }): JsonObject =>
      JSON.parse(body.toString('utf8', start, end))
    const { unidentified, invalid, valid } = classifyEvents(projectId, events, checkBySchema, parseWhole)
    return { body, count, unidentified, invalid, valid: encodeEvents(valid, hashKey) }
  }

  const admitted = admit?.(count)
  return admitted instanceof Promise ? admitted.then(classify) : classify()
}
