import type { AppendBatch, AppendEvent, ReadOptions, Store } from '@ingest/core'
import { encodeEvents } from '@ingest/core/internal'

/** A batch of events with only an id. */
export function batchOf(...eventIds: string[]): AppendBatch {
  return batchWith(eventIds.map((eventId) => ({ eventId })))
}

/** A batch of these events. */
export function batchWith(
  all: readonly { eventId: string; buildId?: string; [member: string]: unknown }[],
  receivedAt = Date.now(),
): AppendBatch {
  const texts = all.map((event) => JSON.stringify(event))
  const body = Buffer.from(`{"events":[${texts.join(',')}]}`)
  let at = body.indexOf('[') + 1
  const events = all.map(({ eventId, buildId }, i): AppendEvent => {
    const [start, end] = [at, at + Buffer.byteLength(texts[i] as string)]
    at = end + 1
    const id = JSON.stringify(eventId)
    const idStart = body.indexOf(id, start)
    const event = { eventId, start, end, idStart, idEnd: idStart + Buffer.byteLength(id) }
    return buildId === undefined ? event : { ...event, buildId }
  })
  return { body, events: encodeEvents(events, Buffer.alloc(16)), receivedAt }
}

/** The ids of the events of project `p`. */
export async function idsOf(store: Store, options: ReadOptions = {}): Promise<string[]> {
  const ids: string[] = []
  for await (const page of store.read('p', options))
    for (const { bytes } of page) ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  return ids
}
