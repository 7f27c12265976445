import { IngestError, type Issue, type RejectedEvent } from '@ingest/core'
import { eventIdIssue, type JsonObject, parseJson, sliceMember } from '@ingest/core/internal'
import { createEventIds } from './event-ids.ts'
import { eventBytesMax } from './fill-batch.ts'
import { addMembers, oneLine } from './serialize-event.ts'
import { createValueSlicer, type SlicedValue, type ValueForm } from './slice-values.ts'

/** An event of an input, as it is to be sent. */
export interface PreparedEvent {
  /** The number of its line, from 1, or its place in the array, from 0. */
  at: number
  bytes: Buffer
  /** Whether it had no `eventId` of its own. */
  hasMadeId: boolean
}

/** An event of an input that is not stored, and why. */
export interface RejectedInput {
  /** The number of its line, from 1, or its place in the array, from 0. */
  at: number
  /** Null where it was unusable. */
  eventId: string | null
  issues: readonly Issue[]
  /** It as JSON in one line; as a string what is not JSON, and `null` what was too long to be kept. */
  event: Buffer
}

/** What one piece of an input holds. */
export interface PreparedPiece {
  /** Undefined until something else than space has come. */
  form: ValueForm | undefined
  /** The bytes of the piece. */
  bytes: number
  events: PreparedEvent[]
  /** What cannot be sent. */
  rejected: RejectedInput[]
}

export interface PrepareOptions {
  /** The `projectId` of events that have none. */
  projectId?: string | undefined
  /** Whether an event without an `eventId` is given one; it is rejected otherwise. */
  makeIds?: boolean | undefined
}

/**
 * The events of a text in UTF-8: one a line (NDJSON), or all of them in one array. Their bytes stay as they are. A line of
 * `GET /v1/events`, or of what was rejected before, `{ …, "event": { … } }`, stands for the event in it. Lines that are
 * not JSON are rejected one by one.
 *
 * @throws {IngestError} behind what stands before it: `malformed-body` for an array that is not JSON or has no end, and
 *   for what is neither; what the source fails with.
 */
export async function* prepareEvents(
  source: AsyncIterable<Uint8Array>,
  { projectId, makeIds = false }: PrepareOptions = {},
): AsyncGenerator<PreparedPiece, void> {
  const slicer = createValueSlicer()
  const filling = { projectId, makeEventId: makeIds ? createEventIds() : undefined }

  function* prepare(bytes: number, values: Iterable<SlicedValue>): Generator<PreparedPiece, void> {
    const events: PreparedEvent[] = []
    const rejected: RejectedInput[] = []
    let fault: unknown
    try {
      for (const value of values) {
        const prepared = prepareEvent(value, slicer.form(), filling)
        if ('issues' in prepared) rejected.push(prepared)
        else events.push(prepared)
      }
    } catch (error) {
      fault = error
    }
    yield { form: slicer.form(), bytes, events, rejected }
    if (fault) throw fault
  }

  for await (const piece of source) yield* prepare(piece.length, slicer.push(piece))
  yield* prepare(0, slicer.end())
}

/** A prepared event that is rejected after all. */
export function rejectEvent(
  { at, bytes }: PreparedEvent,
  rejection: Pick<RejectedEvent, 'eventId' | 'issues'>,
): RejectedInput {
  const { eventId, issues } = rejection
  return { at, eventId, issues, event: oneLine(bytes) }
}

interface Filling {
  projectId: string | undefined
  makeEventId: (() => string) | undefined
}

function prepareEvent(
  { at, bytes, isTooLong }: SlicedValue,
  form: ValueForm | undefined,
  { projectId, makeEventId }: Filling,
): PreparedEvent | RejectedInput {
  if (isTooLong) return { at, eventId: null, issues: [tooLong], event: nullText }
  const value = parse(bytes)
  if (value === undefined && form === 'array') {
    // where the next one begins is anybody's guess
    throw new IngestError('malformed-body', `Element ${at} of the array is not JSON.`)
  }
  if (value === undefined) return { at, eventId: null, issues: [notJson], event: asString(bytes) }
  if (!isObject(value)) return { at, eventId: null, issues: [notObject], event: oneLine(bytes) }
  const { given, text } = unwrap(value, bytes)
  if (isBatch(given)) return { at, eventId: null, issues: [batch], event: oneLine(text) }
  const madeId = given.eventId === undefined ? makeEventId?.() : undefined
  if (given.eventId === undefined && madeId === undefined) {
    return { at, eventId: null, issues: [withoutId], event: oneLine(text) }
  }
  const event = addMembers(text, given, {
    ...(projectId !== undefined && { projectId }),
    ...(madeId !== undefined && { eventId: madeId }),
  })
  if (event.length > eventBytesMax) return { at, eventId: usableId(given), issues: [tooLong], event: oneLine(text) }
  return { at, bytes: event, hasMadeId: madeId !== undefined }
}

const tooLong: Issue = { code: 'too_long', path: '', message: `Expected at most ${eventBytesMax} bytes.` }
const notJson: Issue = { code: 'not_object', path: '', message: 'Expected a JSON object in UTF-8, in one line.' }
const notObject: Issue = { code: 'not_object', path: '', message: 'Expected an object.' }
const batch: Issue = {
  code: 'not_allowed',
  path: '/events',
  message: 'Expected an event, and this is a batch: its array alone can be sent, or its events as lines.',
}
const withoutId = eventIdIssue(undefined) as Issue
const nullText = Buffer.from('null')

/** The members of lines that are made around an event. */
const wrappings = new Set(['cursor,receivedAt,event', 'line,eventId,issues,event', 'index,eventId,issues,event'])

function unwrap(value: JsonObject, bytes: Buffer): { given: JsonObject; text: Buffer } {
  const { event } = value
  const isWrapped = isObject(event) && wrappings.has(Object.keys(value).join())
  return isWrapped ? { given: event, text: sliceMember(bytes, 'event') as Buffer } : { given: value, text: bytes }
}

/** What a value says; undefined for what is not JSON. */
function parse(bytes: Buffer): unknown {
  try {
    return parseJson(bytes)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The body of a request, which would be stored as an event if it were given an id. */
function isBatch({ events, projectId, eventId, type }: JsonObject): boolean {
  return Array.isArray(events) && [projectId, eventId, type].every((member) => member === undefined)
}

function asString(bytes: Buffer): Buffer {
  return Buffer.from(JSON.stringify(bytes.toString()))
}

function usableId({ eventId }: JsonObject): string | null {
  return eventIdIssue(eventId) === undefined ? (eventId as string) : null
}
