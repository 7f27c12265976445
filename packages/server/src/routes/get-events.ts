import { type EventPage, eventLine, IngestError, type ReadPagesOptions, type StoredEvent } from '@ingest/core'
import { eventLineParts, filterNames } from '@ingest/core/internal'
import { EventLine } from '@ingest/core/wire'
import { parseLimit, parseQuery, parseTimeParameter, parseWait, waitSecondsMax } from '../http/query.ts'
import type { HttpRequest } from '../http/request.ts'
import type { ConcurrencyLimitName } from '../limits/concurrency.ts'
import { comma, query, text, time } from './operation.ts'
import type { ProjectRoute, RouteContext, RouteResponse } from './route.ts'

/** Maximum number of events of one response. */
export const eventsReadMax = 10_000
/** The default limit of one response. */
export const eventsReadDefault = 1_000
/** Maximum number of events that one request scans, whether they match or not. */
export const eventsScannedMax = 100_000
/** The charge for each scanned event besides its bytes: about the rest of its line. */
export const eventReadBytes = 64
/** The charge for a lookup by id, in bytes: it reads the whole record that contains the event. */
export const lookUpReadBytes = 65_536
/** Bytes of scanned events that are charged together if charging is asynchronous. */
const chargeBytesMin = 65_536
/** Lines are sent in chunks of at least this many bytes. */
const chunkBytesMin = 65_536
/** A value of `after`: after the last event that is stored now. */
const end = 'end'

/** Parameters with which a scan may continue past the last event of the response. */
const selectors = [...filterNames, 'from', 'to', 'wait'] as const
const parameters = ['eventId', 'after', 'limit', ...selectors] as const
type Range = Partial<Record<Exclude<(typeof parameters)[number], 'eventId'>, string>>

/** Long polls have a separate concurrency limit. */
function eventsConcurrency({ query }: HttpRequest): ConcurrencyLimitName {
  return new URLSearchParams(query).has('wait') ? 'longPolls' : 'downloads'
}

export const getEvents: ProjectRoute = {
  method: 'GET',
  path: '/v1/events',
  scope: 'read',
  concurrency: eventsConcurrency,
  budget: 'reads',
  operation: {
    operationId: 'readEvents',
    tag: 'events',
    summary: 'read, filter and follow events',
    description: `Oldest first. A response scans at most ${comma(eventsScannedMax)} events, and ends early when the read limit is exhausted: repeat with the cursor of the last line. A failure breaks the connection: ignore a last line without a line feed. See [GET /v1/events](http-api.md#get-v1events).`,
    parameters: [
      query(
        'limit',
        { type: 'integer', minimum: 1, maximum: eventsReadMax, default: eventsReadDefault },
        `events per response, 1 to ${comma(eventsReadMax)}`,
      ),
      query(
        'after',
        { type: 'string', maxLength: 40 },
        'a [cursor](http-api.md#cursors) to continue after, else from the beginning; `end` skips everything stored so far',
      ),
      ...filterNames.map((name) => query(name, text, 'exact match')),
      query('from', time, '`receivedAt` at or after: RFC 3339 with a zone, or milliseconds. Uses an index'),
      query('to', time, '`receivedAt` before, in the same forms'),
      query(
        'wait',
        { type: 'integer', minimum: 0, maximum: waitSecondsMax, default: 0 },
        `long poll: seconds to hold the response while no event matches, 0 to ${waitSecondsMax}`,
      ),
      query('eventId', text, 'the event with this id, or no line; excludes all other parameters'),
    ],
    responses: {
      200: {
        description: 'A line for each event. With a filter, `wait` or `after=end`, the last may hold only a `cursor`.',
        content: {
          'application/x-ndjson': {
            schema: {
              ...text,
              description: 'NDJSON: each line, which ends with a line feed, is an EventLine.',
              contentMediaType: 'application/x-ndjson',
              contentSchema: EventLine,
            },
            example: `${JSON.stringify({
              cursor: 'ATqRwF7ST3sWKpdRbAAAAAAAAQFnurqr',
              receivedAt: 1795266173061,
              event: { projectId: 'demo', eventId: 'e-2' },
            })}\n`,
          },
        },
      },
    },
    codes: ['invalid-cursor'],
  },
  handle: readEvents,
}

async function readEvents(context: RouteContext): Promise<RouteResponse> {
  const { eventId, ...range } = parseQuery(context.request.query, parameters)
  const body = eventId === undefined ? await readRange(context, range) : await lookUp(context, eventId, range)
  return { status: 200, headers: { 'Content-Type': 'application/x-ndjson' }, body }
}

async function lookUp({ ingest, limiter }: RouteContext, eventId: string, range: Range): Promise<Uint8Array> {
  const [other] = Object.keys(range)
  if (other !== undefined) {
    throw new IngestError('invalid-argument', `eventId names one event: remove ${other}.`)
  }
  await limiter.charge(ingest.projectId, { readBytes: lookUpReadBytes })
  const event = await ingest.findEvent(eventId)
  return event ? eventLine(event) : new Uint8Array()
}

async function readRange(context: RouteContext, range: Range): Promise<AsyncIterable<Uint8Array>> {
  const options = parseRange(range)
  if (options.after === end) options.after = await context.ingest.lastCursor()
  // HEAD does not wait
  if (context.request.method === 'HEAD') delete options.waitMs
  const isEveryEvent = range.after !== end && !selectors.some((name) => range[name] !== undefined)
  return readLines(context, options, isEveryEvent)
}

function parseRange({ limit, from, to, wait, ...exact }: Range): ReadPagesOptions {
  return {
    ...exact,
    ...parseTimeParameter('from', from),
    ...parseTimeParameter('to', to),
    ...parseWait(wait),
    limit: eventsReadDefault,
    ...parseLimit(limit, eventsReadMax),
  }
}

/**
 * A line for each event, in chunks, until the project's budget for reads is used up. If the scan went past the last
 * line, a line with only a cursor follows, so that the next request does not scan the same events again.
 */
async function* readLines(
  { ingest, limiter, request, onCancel }: Pick<RouteContext, 'ingest' | 'limiter' | 'request' | 'onCancel'>,
  options: ReadPagesOptions,
  isEveryEvent: boolean,
): AsyncGenerator<Uint8Array> {
  const { signal, stop, takeEvents, chargeRest, scannedTo } = trackScan({ ingest, limiter }, options.after)
  let lastCursor: string | undefined
  let parts: Uint8Array[] = []
  let size = 0
  const stopWatching = options.waitMs ? onCancel(stop) : undefined
  try {
    for await (const page of ingest.readPages({ ...options, signal })) {
      for (const event of await takeEvents(page)) {
        for (const part of eventLineParts(event)) {
          parts.push(part)
          size += part.length
        }
        lastCursor = event.cursor
        if (size < chunkBytesMin) continue
        yield Buffer.concat(parts, size)
        parts = []
        size = 0
      }
    }
  } catch (error) {
    // a stopped scan is a complete response; so is the response to a half-closed connection if it ends with a cursor
    if (error !== signal.reason && (isEveryEvent || error !== request.signal().reason)) throw error
  } finally {
    stopWatching?.()
    await chargeRest()
  }
  const cursor = scannedTo()
  if (!isEveryEvent && cursor !== undefined && cursor !== lastCursor) {
    parts.push(Buffer.from(`${JSON.stringify({ cursor })}\n`))
  }
  if (parts.length > 0) yield Buffer.concat(parts)
}

/** Charges scanned events to the project and stops the scan at its limit. */
function trackScan({ ingest: { projectId }, limiter }: Pick<RouteContext, 'ingest' | 'limiter'>, after?: string) {
  const controller = new AbortController()
  const stop = () => controller.abort()
  let scannedTo = after
  let scannedCount = 0
  let isWithinBudget = true
  let unchargedBytes = 0
  let isAsynchronous = false

  function charge(): void | Promise<void> {
    const result = limiter.charge(projectId, { readBytes: unchargedBytes })
    unchargedBytes = 0
    if (typeof result === 'boolean') {
      isWithinBudget = result
      return
    }
    isAsynchronous = true
    return result.then((isWithin) => {
      isWithinBudget = isWithin
    })
  }

  return {
    signal: controller.signal,
    stop,
    /** Charges the events of a page, and returns those that match, up to the one at which the scan stops. */
    async takeEvents({ events, scanned }: EventPage): Promise<readonly StoredEvent[]> {
      let taken = 0
      for (const each of scanned) {
        unchargedBytes += (each.bytes?.length ?? 0) + eventReadBytes
        const charged = !isAsynchronous || unchargedBytes >= chargeBytesMin ? charge() : undefined
        if (charged !== undefined) await charged
        if (each === events[taken]) taken++
        scannedTo = each.cursor
        if (++scannedCount < eventsScannedMax && isWithinBudget) continue
        stop()
        break
      }
      return events.slice(0, taken)
    },
    /** Never rejects: the events were sent, and if charging fails, the next request is refused anyway. */
    async chargeRest() {
      if (unchargedBytes > 0) await Promise.resolve(charge()).catch(() => {})
    },
    scannedTo: () => scannedTo,
  }
}
