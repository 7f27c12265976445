import { isUtf8 } from 'node:buffer'
import { IngestError } from '../error.ts'
import { parseJson, withoutMark } from '../json/parse-json.ts'
import type { Issue } from '../validation.ts'
import { type IngestEvent, isObject } from './event.ts'

/** The largest body of a batch, in bytes. */
export const batchBytesMax = 262_144
/** The most events of a batch. */
export const batchEventsMax = 100

/** A batch as a program has it: `{ events: [{ projectId, eventId, … }] }`. */
export interface BatchInput<E = IngestEvent> {
  events: readonly E[]
}

/** An event that was not stored, and why: sending it again unchanged is of no use. */
export interface RejectedEvent {
  /** Its place in the `events` array of the request. */
  index: number
  /** Null where it was unusable. */
  eventId: string | null
  issues: Issue[]
}

/** What became of a batch: `accepted + duplicates + rejected.length` is the number of events sent. */
export interface BatchResult {
  accepted: number
  duplicates: number
  rejected: RejectedEvent[]
}

/**
 * The bytes of a batch, which came as bytes or as an object.
 *
 * @throws {IngestError} `batch-too-large` over 262,144 bytes, `malformed-body` for what is not UTF-8.
 */
export function batchBody(input: Uint8Array | BatchInput<unknown>): Buffer {
  const bytes = input instanceof Uint8Array ? input : serialize(input)
  if (bytes.length > batchBytesMax) throw batchTooLarge(bytes.length)
  const { buffer, byteOffset, length } = withoutMark(bytes)
  const body = Buffer.from(buffer, byteOffset, length)
  if (!isUtf8(body)) throw new IngestError('malformed-body', 'The body is not UTF-8.')
  return body
}

/**
 * The events of a batch, without looking at any of them.
 *
 * @throws {IngestError} `malformed-body` for what is not JSON, `invalid-envelope` without an array `events`,
 *   `too-many-events` over 100 of them.
 */
export function parseEvents(body: Buffer): unknown[] {
  const envelope = parseJson(body)
  if (!isObject(envelope)) throw invalidEnvelope(false)
  const { events } = envelope
  if (!Array.isArray(events)) throw invalidEnvelope(true)
  if (events.length > batchEventsMax) throw tooManyEvents(events.length)
  return events
}

/** The refusal of a body that is no object, or that has no array `events`. */
export function invalidEnvelope(isObject: boolean): IngestError {
  const what = isObject ? 'have an array "events"' : 'be a JSON object'
  return new IngestError('invalid-envelope', `The body must ${what}: { "events": [ … ] }.`)
}

/** The refusal of a batch of more than 100 events. */
export function tooManyEvents(actual: number): IngestError {
  return new IngestError(
    'too-many-events',
    `A batch holds at most ${batchEventsMax} events, this one ${actual}: send it in parts.`,
    { limit: batchEventsMax, actual },
  )
}

/** The refusal of a body of more than 262,144 bytes; `actual` is what is known of its size so far. */
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
