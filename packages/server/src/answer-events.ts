import { eventLine, type Ingest, IngestError, type StoredEvent } from '@ingest/core'
import type { Reply } from './answer.ts'
import type { EdgeRequest } from './edge-request.ts'
import { parseLimit, parseQuery } from './parse-query.ts'

/** The most events of one answer. */
export const eventsReadMax = 10_000
/** How many there are in one, unless the query says so. */
export const eventsReadDefault = 1_000
/** Lines are sent together in pieces of at least so many bytes. */
const pieceBytes = 65_536

/**
 * Stored events of a project as NDJSON, oldest first, or the one with an id.
 *
 * @throws {IngestError} `invalid-argument`, and while the lines are read `invalid-cursor`
 */
export async function answerEvents(ingest: Ingest, projectId: string, { query }: EdgeRequest): Promise<Reply> {
  const { after, limit, eventId } = parseQuery(query, ['after', 'limit', 'eventId'])
  const headers = { 'Content-Type': 'application/x-ndjson' }
  if (eventId === undefined) {
    const options = {
      limit: parseLimit(limit, eventsReadMax) ?? eventsReadDefault,
      ...(after !== undefined && { after }),
    }
    return { status: 200, headers, body: joinLines(ingest.readEvents(projectId, options)) }
  }
  if (after !== undefined || limit !== undefined) {
    throw new IngestError('invalid-argument', 'eventId names one event: after and limit do not go with it.')
  }
  const event = await ingest.findEvent(projectId, eventId)
  return { status: 200, headers, body: event ? eventLine(event) : new Uint8Array() }
}

async function* joinLines(events: AsyncIterable<StoredEvent>): AsyncGenerator<Uint8Array> {
  let lines: Uint8Array[] = []
  let size = 0
  for await (const event of events) {
    const line = eventLine(event)
    lines.push(line)
    size += line.length
    if (size < pieceBytes) continue
    yield Buffer.concat(lines, size)
    lines = []
    size = 0
  }
  if (size > 0) yield Buffer.concat(lines, size)
}
