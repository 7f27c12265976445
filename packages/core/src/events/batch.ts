import { isUtf8 } from 'node:buffer'
import { isUint8Array } from 'node:util/types'
import { IngestError, type Issue } from '../error.ts'
import { parseJson, stripByteOrderMark } from '../json/parse-json.ts'
import { isObject } from '../validation.ts'
import type { IngestEvent } from './event.ts'

/** Maximum bytes of the body of a batch, uncompressed. */
export const batchBytesMax = 262_144
/** Maximum number of events in a batch. */
export const batchEventsMax = 100

/** A batch as an object: `{ events: [{ projectId, eventId, … }] }`. */
export interface BatchInput<E = IngestEvent> {
  events: readonly E[]
}

/** An invalid event. It was not stored, and a retry would be rejected again. */
export interface RejectedEvent {
  /** Its index in the `events` array of the request. */
  index: number
  /** Null if the event has no valid id. */
  eventId: string | null
  issues: Issue[]
}

/** The outcome of a batch: `accepted + duplicates + rejected.length` is the number of its events. */
export interface BatchResult {
  /** Events that this batch stored. */
  accepted: number
  /** Events whose id was stored before, or earlier in the batch. */
  duplicates: number
  /** In the order of the request. */
  rejected: RejectedEvent[]
}

/**
 * The body of a batch, without a byte order mark.
 *
 * @throws {IngestError} `batch-too-large` over 262,144 bytes, `malformed-body` for bytes that are not UTF-8 and for an
 *   object that JSON cannot represent
 */
export function batchBody(input: Uint8Array | BatchInput<unknown>): Buffer {
  const bytes = isUint8Array(input) ? input : serialize(input)
  if (bytes.length > batchBytesMax) throw batchTooLarge(bytes.length)
  const { buffer, byteOffset, length } = stripByteOrderMark(bytes)
  // a transferred buffer has length 0, and Buffer.from throws for it
  const body = length === 0 ? Buffer.alloc(0) : Buffer.from(buffer, byteOffset, length)
  if (!isUtf8(body)) throw new IngestError('malformed-body', 'The body is not UTF-8.')
  return body
}

/**
 * The events of a batch, unchecked.
 *
 * @throws {IngestError} `malformed-body` if it is not JSON, `invalid-envelope` if it has no array `events`,
 *   `too-many-events` for more than 100
 */
export function parseEvents(body: Buffer): unknown[] {
  const envelope = parseJson(body)
  if (!isObject(envelope)) throw invalidEnvelope(false)
  const { events } = envelope
  if (!Array.isArray(events)) throw invalidEnvelope(true)
  if (events.length > batchEventsMax) throw tooManyEvents(events.length)
  return events
}

/** The error for a body that is not an object, or that has no array `events`. */
export function invalidEnvelope(isObject: boolean): IngestError {
  const what = isObject ? 'have an array "events"' : 'be a JSON object'
  return new IngestError('invalid-envelope', `The body must ${what}: { "events": [ … ] }.`)
}

/** The error for a batch of more than 100 events. */
export function tooManyEvents(actual: number): IngestError {
  return new IngestError(
    'too-many-events',
    `A batch holds at most ${batchEventsMax} events, this one ${actual}: send it in parts.`,
    { limit: batchEventsMax, actual },
  )
}

/** The error for a body of more than 262,144 bytes; `actual` is its size, or the bytes received so far. */
export function batchTooLarge(actual: number): IngestError {
  return new IngestError(
    'batch-too-large',
    `A batch holds at most ${batchBytesMax} bytes, uncompressed: send it in parts.`,
    { limit: batchBytesMax, actual },
  )
}

function serialize(input: BatchInput<unknown>): Uint8Array {
  if (!isObject(input)) throw new IngestError('malformed-body', 'A batch is bytes, or an object { events: [ … ] }.')
  let text: string | undefined
  try {
    text = JSON.stringify(input)
  } catch (cause) {
    throw new IngestError('malformed-body', `The batch cannot be written as JSON: ${(cause as Error).message}`, {
      cause,
    })
  }
  return Buffer.from(text ?? '')
}
