import { randomBytes } from 'node:crypto'
import { batchBytesMax, batchEventsMax } from '../events/batch.ts'
import { sliceMember } from '../json/json-scanner.ts'
import { parseJson } from '../json/parse-json.ts'
import type { AppendBatch, StoredEvent } from '../store-types.ts'
import { type AppendEvent, encodeEvents } from '../submit/batch-events.ts'

const bodyStart = Buffer.from('{"events":[')
const comma = Buffer.from(',')
const bodyEnd = Buffer.from(']}')

/** Groups consecutive events with the same time of receipt, as many as fit into one batch. */
export async function* groupEvents(pages: AsyncIterable<readonly StoredEvent[]>): AsyncGenerator<StoredEvent[]> {
  let group: StoredEvent[] = []
  let bytes = 0
  for await (const page of pages) {
    for (const event of page) {
      const eventBytes = jsonOf(event).length + comma.length
      const isFull = group.length === batchEventsMax || bytes + eventBytes > batchBytesMax
      if (group[0] && (isFull || group[0].receivedAt !== event.receivedAt)) {
        yield group
        group = []
        bytes = 0
      }
      if (group.length === 0) bytes = bodyStart.length + bodyEnd.length
      group.push(event)
      bytes += eventBytes
    }
  }
  if (group.length > 0) yield group
}

/**
 * The batch of a group of events. Only their ids and builds are read: stored events are not validated again, as the
 * rules may have become stricter. An erased event becomes a tombstone, with one of the builds that erased events froze.
 */
export function toBatch(
  group: readonly StoredEvent[],
  hashKey: Uint8Array = randomBytes(16),
  frozenBy: readonly string[] = [],
): AppendBatch {
  const parts: Uint8Array[] = [bodyStart]
  const events: AppendEvent[] = []
  let at = bodyStart.length
  const referenced = new Set(
    frozenBy.length === 0 ? [] : group.map(({ bytes, erased }) => (erased === undefined ? buildOf(bytes) : undefined)),
  )
  const builds = frozenBy.filter((buildId) => !referenced.has(buildId))
  for (const event of group) {
    const { erased } = event
    const bytes = jsonOf(event)
    if (events.length > 0) {
      parts.push(comma)
      at += comma.length
    }
    events.push(erased === undefined ? toAppendEvent(bytes, at) : toTombstone(erased, bytes, at, builds.pop()))
    parts.push(bytes)
    at += bytes.length
  }
  parts.push(bodyEnd)
  const [first] = group as [StoredEvent]
  return { body: Buffer.concat(parts), events: encodeEvents(events, hashKey), receivedAt: first.receivedAt }
}

/** The bytes of an event in a batch: a tombstone is the JSON string of its id. */
function jsonOf({ bytes, erased }: StoredEvent): Uint8Array {
  return erased === undefined ? bytes : Buffer.from(JSON.stringify(erased))
}

/** An event that starts at `start` of the body. */
function toAppendEvent(bytes: Uint8Array, start: number): AppendEvent {
  const id = sliceMember(bytes, 'eventId') as Uint8Array
  const idStart = start + id.byteOffset - bytes.byteOffset
  const eventId = parseJson(id) as string
  const event = { eventId, start, end: start + bytes.length, idStart, idEnd: idStart + id.length }
  const buildId = buildOf(bytes)
  return buildId === undefined ? event : { ...event, buildId }
}

function buildOf(bytes: Uint8Array): string | undefined {
  const build = sliceMember(bytes, 'buildId')
  const buildId = build && parseJson(build)
  return typeof buildId === 'string' ? buildId : undefined
}

function toTombstone(eventId: string, { length }: Uint8Array, start: number, buildId: string | undefined): AppendEvent {
  const [idStart, end] = [start, start + length]
  return { eventId, start, end, idStart, idEnd: end, ...(buildId !== undefined && { buildId }) }
}
