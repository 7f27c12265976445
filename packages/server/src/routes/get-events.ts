import { eventLine, type Ingest, IngestError, type ReadEventsOptions } from '@ingest/core'
import { parseLimit, parseQuery, parseTimeOf, parseWait } from '../http/query.ts'
import type { EdgeRequest } from '../http/request.ts'
import type { Reply } from '../http/response.ts'
import type { Waits } from '../limits/long-polls.ts'
import type { ChargeRead } from './read.ts'

/** The most events of one answer. */
export const eventsReadMax = 10_000
/** How many there are in one, unless the query says so. */
export const eventsReadDefault = 1_000
/** How many events are looked at for one answer, however few of them are wanted. */
export const eventsScannedMax = 100_000
/** What a read is charged for each event besides its bytes, wanted or not: about the rest of its line. */
export const eventReadBytes = 64
/** What a look-up by id is charged: it reads the whole record that holds the event. */
export const lookUpReadBytes = 65_536
/** Lines are sent together in pieces of at least so many bytes. */
const pieceBytes = 65_536
/** In place of a cursor: behind all that is stored by now. */
const end = 'end'

export interface EventsContext {
  waits: Waits
  ingest: Ingest
  charge: ChargeRead
}

/**
 * Stored events of a project as NDJSON, oldest first: all, or those that are wanted; or the one with an id.
 *
 * @throws {IngestError} `invalid-argument`, and while the lines are read `invalid-cursor`
 */
export async function answerEvents({ waits, ingest, charge }: EventsContext, request: EdgeRequest): Promise<Reply> {
  const { eventId, ...range } = parseQuery(request.query, parameters)
  const headers = { 'Content-Type': 'application/x-ndjson' }
  if (eventId === undefined) {
    const options = parseRange(range)
    if (options.after === end) options.after = await ingest.lastCursor()
    // who asks for the headers alone does not want to wait for them
    if (request.method === 'HEAD') delete options.waitMs
    const isEveryEvent = range.after !== end && !selectors.some((name) => range[name] !== undefined)
    const beginWait = (stop: () => void) => waits.begin(request, stop)
    const lines = readLines({ ingest, charge, beginWait }, options, isEveryEvent)
    return { status: 200, headers, body: joinLines(lines) }
  }
  const [other] = Object.keys(range)
  if (other !== undefined) {
    throw new IngestError('invalid-argument', `eventId names one event: ${other} does not go with it.`)
  }
  charge(lookUpReadBytes)
  const event = await ingest.findEvent(eventId)
  return { status: 200, headers, body: event ? eventLine(event) : new Uint8Array() }
}

/** Parameters that leave events out, or let the answer wait for some. */
const selectors = ['type', 'buildId', 'from', 'to', 'wait'] as const
const parameters = ['eventId', 'after', 'limit', ...selectors] as const

function parseRange(range: Partial<Record<(typeof parameters)[number], string>>): ReadEventsOptions {
  const { after, type, buildId } = range
  const [from, to] = [parseTimeOf('from', range.from), parseTimeOf('to', range.to)]
  const waitMs = parseWait(range.wait)
  return {
    limit: parseLimit(range.limit, eventsReadMax) ?? eventsReadDefault,
    ...(after !== undefined && { after }),
    ...(type !== undefined && { type }),
    ...(buildId !== undefined && { buildId }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(waitMs !== undefined && { waitMs }),
  }
}

interface BeginWait {
  beginWait(stop: () => void): () => void
}

/**
 * A line for each event, until the project's budget for reads is used up. Where the last of them does not have it, a
 * line with the cursor alone follows, from which the next request continues without scanning the same events again.
 */
async function* readLines(
  { ingest, charge, beginWait }: Pick<EventsContext, 'ingest' | 'charge'> & BeginWait,
  options: ReadEventsOptions,
  isEveryEvent: boolean,
): AsyncGenerator<Uint8Array> {
  const controller = new AbortController()
  const { signal } = controller
  const stop = () => controller.abort()
  let { after } = options
  let told: string | undefined
  let scanned = 0
  let mayGoOn = true
  function onScan(bytes: number): void {
    mayGoOn = charge(bytes + eventReadBytes)
  }
  function onProgress(cursor: string): void {
    after = cursor
    if (++scanned === eventsScannedMax || !mayGoOn) stop()
  }
  const endWait = options.waitMs ? beginWait(stop) : undefined
  try {
    for await (const event of ingest.readEvents({ ...options, signal, onScan, onProgress })) {
      yield eventLine(event)
      told = event.cursor
    }
  } catch (error) {
    // what was stopped here ends as any other answer does
    if (error !== signal.reason) throw error
  } finally {
    endWait?.()
  }
  if (!isEveryEvent && after !== undefined && after !== told)
    yield Buffer.from(`${JSON.stringify({ cursor: after })}\n`)
}

async function* joinLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let lines: Uint8Array[] = []
  let size = 0
  for await (const line of source) {
    lines.push(line)
    size += line.length
    if (size < pieceBytes) continue
    yield Buffer.concat(lines, size)
    lines = []
    size = 0
  }
  if (size > 0) yield Buffer.concat(lines, size)
}
