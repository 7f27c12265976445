import { eventLine, type Ingest, IngestError, type ReadEventsOptions } from '@ingest/core'
import type { Reply } from './answer.ts'
import type { Waits } from './create-waits.ts'
import type { EdgeRequest } from './edge-request.ts'
import { parseLimit, parseQuery, parseTimeOf, parseWait } from './parse-query.ts'

/** The most events of one answer. */
export const eventsReadMax = 10_000
/** How many there are in one, unless the query says so. */
export const eventsReadDefault = 1_000
/** How many events are looked at for one answer, however few of them are wanted. */
export const eventsScannedMax = 100_000
/** Lines are sent together in pieces of at least so many bytes. */
const pieceBytes = 65_536
/** In place of a cursor: behind all that is stored by now. */
const end = 'end'

/**
 * Stored events of a project as NDJSON, oldest first: all, or those that are wanted; or the one with an id.
 *
 * @throws {IngestError} `invalid-argument`, and while the lines are read `invalid-cursor`
 */
export async function answerEvents(
  waits: Waits,
  ingest: Ingest,
  projectId: string,
  request: EdgeRequest,
): Promise<Reply> {
  const { eventId, ...range } = parseQuery(request.query, parameters)
  const headers = { 'Content-Type': 'application/x-ndjson' }
  if (eventId === undefined) {
    const options = parseRange(range)
    if (options.after === end) options.after = await ingest.lastCursor(projectId)
    // who asks for the headers alone does not want to wait for them
    if (request.method === 'HEAD') delete options.waitMs
    const isEveryEvent = range.after !== end && !selectors.some((name) => range[name] !== undefined)
    const lines = readLines(ingest, projectId, options, isEveryEvent, (stop) => waits.begin(request, stop))
    return { status: 200, headers, body: joinLines(lines) }
  }
  const [other] = Object.keys(range)
  if (other !== undefined) {
    throw new IngestError('invalid-argument', `eventId names one event: ${other} does not go with it.`)
  }
  const event = await ingest.findEvent(projectId, eventId)
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

/**
 * A line for each event. Where that does not say it, a last one says how far was read, so that whoever goes on there
 * does not make the server look at the same events again.
 */
async function* readLines(
  ingest: Ingest,
  projectId: string,
  options: ReadEventsOptions,
  isEveryEvent: boolean,
  beginWait: (stop: () => void) => () => void,
): AsyncGenerator<Uint8Array> {
  const controller = new AbortController()
  const { signal } = controller
  const stop = () => controller.abort()
  let { after } = options
  let told: string | undefined
  let scanned = 0
  function onProgress(cursor: string): void {
    after = cursor
    if (++scanned === eventsScannedMax) stop()
  }
  const endWait = options.waitMs ? beginWait(stop) : undefined
  try {
    for await (const event of ingest.readEvents(projectId, { ...options, signal, onProgress })) {
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
