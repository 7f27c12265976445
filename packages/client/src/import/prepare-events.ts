import { IngestError, type Issue, type RejectedEvent } from '@ingest/core'
import { eventIdIssue, type JsonObject, parseJson, sliceMember } from '@ingest/core/internal'
import { createEventIds } from '../batch/event-ids.ts'
import { eventBytesMax } from '../batch/fill-batch.ts'
import { addMissingMembers, toSingleLine } from '../batch/serialize-event.ts'
import { createValueSlicer, type SlicedValue, type ValueForm } from './slice-values.ts'

/** An input event that is ready to be sent. */
export interface PreparedEvent {
  /** Its line number, from 1, or its index in the array, from 0. */
  at: number
  bytes: Buffer
  /** Whether its `eventId` was generated. */
  hasMadeId: boolean
}

/** An input event that was not stored. */
export interface RejectedInput {
  /** Its line number, from 1, or its index in the array, from 0. */
  at: number
  /** Null if the id is missing or invalid. */
  eventId: string | null
  issues: readonly Issue[]
  /** The event as JSON in one line: as a string if it is not JSON, `null` if it was too long to keep. */
  event: Buffer
}

/** The events of one chunk of the input. */
export interface PreparedEvents {
  /** Undefined until the input has a character that is not whitespace. */
  form: ValueForm | undefined
  /** The length of the chunk. */
  bytes: number
  events: PreparedEvent[]
  /** Events that cannot be sent. */
  rejected: RejectedInput[]
}

/** Options of `prepareEvents`. */
export interface PrepareOptions {
  /** Used for events without a `projectId`. */
  projectId?: string | undefined
  /** Whether to generate missing ids. Default: false; events without an id are rejected. */
  makeIds?: boolean | undefined
}

/**
 * Reads events from UTF-8 text: one per line (NDJSON), or all in one array. Their bytes are kept. A line of `GET
 * /v1/events`, or of a report of rejected events, `{ …, "event": { … } }`, is unwrapped. A line that is not JSON is
 * rejected on its own.
 *
 * @throws {IngestError} after the events before the fault: `malformed-body` for an invalid or incomplete array, and for
 *   input in another form. Errors of the source are thrown unchanged.
 */
export async function* prepareEvents(
  source: AsyncIterable<Uint8Array>,
  { projectId, makeIds = false }: PrepareOptions = {},
): AsyncGenerator<PreparedEvents, void> {
  const slicer = createValueSlicer()
  const defaults = { projectId, makeEventId: makeIds ? createEventIds() : undefined }

  function* prepare(bytes: number, values: () => Iterable<SlicedValue>): Generator<PreparedEvents, void> {
    const { fault, ...prepared } = prepareValues(values, slicer.form, defaults)
    yield { form: slicer.form(), bytes, ...prepared }
    if (fault) throw fault.error
  }

  for await (const chunk of source) yield* prepare(chunk.length, () => slicer.push(chunk))
  yield* prepare(0, () => slicer.end())
}

/** Turns a prepared event into a rejected one, for example after a response of the server. */
export function rejectEvent(
  { at, bytes }: PreparedEvent,
  rejection: Pick<RejectedEvent, 'eventId' | 'issues'>,
): RejectedInput {
  const { eventId, issues } = rejection
  return { at, eventId, issues, event: toSingleLine(bytes) }
}

/** Members added to events that lack them. */
export interface EventDefaults {
  projectId: string | undefined
  makeEventId: (() => string) | undefined
}

/** The events in some values; `fault` is an error that ended the values, or their array. */
export function prepareValues(
  values: () => Iterable<SlicedValue>,
  form: () => ValueForm | undefined,
  defaults: EventDefaults,
): Pick<PreparedEvents, 'events' | 'rejected'> & { fault?: { error: unknown } } {
  const events: PreparedEvent[] = []
  const rejected: RejectedInput[] = []
  try {
    for (const value of values()) {
      const prepared = prepareEvent(value, form(), defaults)
      if ('issues' in prepared) rejected.push(prepared)
      else events.push(prepared)
    }
  } catch (error) {
    return { events, rejected, fault: { error } }
  }
  return { events, rejected }
}

function prepareEvent(
  { at, source, start, end, isTooLong }: SlicedValue,
  form: ValueForm | undefined,
  { projectId, makeEventId }: EventDefaults,
): PreparedEvent | RejectedInput {
  const reject = (issue: Issue, event: Buffer): RejectedInput => ({ at, eventId: null, issues: [issue], event })
  const bytes = source.subarray(start, end)
  if (isTooLong) return reject(tooLong, nullText)
  const value = tryParse(bytes)
  if (value === undefined && form === 'array') {
    // after invalid JSON the start of the next element is unknown
    throw new IngestError('malformed-body', `Element ${at} of the array is not JSON.`)
  }
  if (value === undefined) return reject(notJson, Buffer.from(JSON.stringify(bytes.toString())))
  if (!isObject(value)) return reject(notObject, toSingleLine(bytes))
  const { given, text } = unwrap(value, bytes)
  if (isBatch(given)) return reject(batch, toSingleLine(text))
  const madeId = given.eventId === undefined ? makeEventId?.() : undefined
  if (given.eventId === undefined && madeId === undefined) return reject(withoutId, toSingleLine(text))
  const event = addMissingMembers(text, given, {
    ...(projectId !== undefined && { projectId }),
    ...(madeId !== undefined && { eventId: madeId }),
  })
  if (event.length <= eventBytesMax) return { at, bytes: event, hasMadeId: madeId !== undefined }
  return { ...reject(tooLong, toSingleLine(text)), eventId: validEventId(given) }
}

const tooLong: Issue = { code: 'too_long', path: '', message: `Expected at most ${eventBytesMax} bytes.` }
const notJson: Issue = { code: 'not_object', path: '', message: 'Expected a JSON object in UTF-8, in one line.' }
const notObject: Issue = { code: 'not_object', path: '', message: 'Expected an object.' }
const batch: Issue = {
  code: 'not_allowed',
  path: '/events',
  message: 'Expected an event, not a batch: send its array alone, or its events as lines.',
}
const withoutId = eventIdIssue(undefined) as Issue
const nullText = Buffer.from('null')

/** The members of lines that wrap an event. */
const wrappings = new Set(['cursor,receivedAt,event', 'line,eventId,issues,event', 'index,eventId,issues,event'])

function unwrap(value: JsonObject, bytes: Buffer): { given: JsonObject; text: Buffer } {
  const { event } = value
  const isWrapped = isObject(event) && wrappings.has(Object.keys(value).join())
  return isWrapped ? { given: event, text: sliceMember(bytes, 'event') as Buffer } : { given: value, text: bytes }
}

/** Parses JSON; returns undefined if it is invalid. */
function tryParse(bytes: Buffer): unknown {
  try {
    return parseJson(bytes)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a value is the body of a batch request, which must not be stored as an event with a generated id. */
function isBatch({ events, projectId, eventId, type }: JsonObject): boolean {
  return Array.isArray(events) && [projectId, eventId, type].every((member) => member === undefined)
}

function validEventId({ eventId }: JsonObject): string | null {
  return eventIdIssue(eventId) === undefined ? (eventId as string) : null
}
