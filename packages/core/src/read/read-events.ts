import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import { carriageReturn, lineFeed, space } from '../json/bytes.ts'
import type { Cursor } from '../json/cursor.ts'
import type { EventStore } from '../store.ts'
import type { StoredEvent } from '../store-types.ts'
import { type EndableRead, endableRead } from './endable-read.ts'
import { checkEventFilter, compileEventFilter, type EventFilter } from './event-filter.ts'
import type { EventNotifier } from './event-notifier.ts'

/** Times are milliseconds since 1970, and compare with `receivedAt`. */
export interface ReadPagesOptions extends EventFilter {
  /** Only events after this one. Default: from the beginning. */
  after?: Cursor
  /** Maximum number of events to yield. Default: all. */
  limit?: number
  /** Only events received at this time or later. */
  from?: number
  /** Only events received before this time. */
  to?: number
  /**
   * A long poll: how long to wait for the first event if there is none, in milliseconds. Reading ends after the last
   * stored event. Default: 0.
   */
  waitMs?: number
  /** Reading rejects with the reason of the signal as soon as it aborts. */
  signal?: AbortSignal
}

export interface ReadEventsOptions extends ReadPagesOptions {
  /**
   * Called with the cursor up to which every event was filtered out, or yielded and the next one requested. Reading can
   * continue `after` it. An embedded Ingest calls it for each event; a client calls it for each yielded event and at
   * the end of a response.
   */
  onProgress?: (cursor: Cursor) => void
}

/** Events that were read in one step: about a batch, or those of one chunk of a response. */
export interface EventPage {
  /** The events that match, oldest first. */
  events: readonly StoredEvent[]
  /**
   * The same objects, and between them the events that were filtered out: a client has only the cursor of the last of
   * these. Reading can continue `after` any of them.
   */
  scanned: readonly ScannedEvent[]
}

/** An event of a page. Over HTTP, one that was filtered out has only its cursor. */
export type ScannedEvent = Pick<StoredEvent, 'cursor'> & Partial<StoredEvent>

/**
 * Reads the events stored since a long poll began to wait. Polls that wake together at the same position share a read.
 */
export type ReadArrivals = (projectId: string, after: Cursor | undefined) => Promise<Arrivals>

interface Arrivals {
  events: readonly StoredEvent[]
  /** Whether there may be more events. */
  isPart: boolean
}

/** Maximum events and bytes of one shared read. It ends after the page that exceeds them. */
const arrivalsMax = { events: 256, bytes: 1_048_576 }

export function createReadArrivals(store: Pick<EventStore, 'read'>): ReadArrivals {
  /** Reads that have not started: a started read may miss the event that woke a poll. */
  const waiting = new Map<string, Promise<Arrivals>>()

  async function read(projectId: string, after: Cursor | undefined): Promise<Arrivals> {
    const events: StoredEvent[] = []
    let bytes = 0
    for await (const page of store.read(projectId, { after, limit: arrivalsMax.events })) {
      events.push(...page)
      for (const event of page) bytes += event.bytes.length
      if (bytes >= arrivalsMax.bytes) break
    }
    return { events, isPart: events.length === arrivalsMax.events || bytes >= arrivalsMax.bytes }
  }

  return (projectId, after) => {
    const key = JSON.stringify([projectId, after])
    const existing = waiting.get(key)
    if (existing) return existing
    const reading = nextTurn().then(() => {
      waiting.delete(key)
      return read(projectId, after)
    })
    waiting.set(key, reading)
    return reading
  }
}

export interface ReadContext {
  store: EventStore
  readArrivals: ReadArrivals
  notifier: EventNotifier
  /** The clock, in milliseconds since 1970. */
  now(): number
}

/**
 * How often a long poll reads the store again if the store does not report events of other processes, in milliseconds.
 */
const pollMs = 500
/** The same for a store with `watch`, whose notifications may be lost. */
const watchedPollMs = 300_000

/**
 * The pages of `Ingest.readPages`. Each has at least one scanned event.
 *
 * @throws {IngestError} as `Ingest.readPages`
 */
export async function* readPages(
  { store, readArrivals, notifier, now }: ReadContext,
  projectId: string,
  options: ReadPagesOptions,
): AsyncGenerator<EventPage, void> {
  checkReadEventsOptions(options)
  const { limit = Number.POSITIVE_INFINITY, from, to = Number.POSITIVE_INFINITY, waitMs = 0, signal } = options
  const isWanted = compileEventFilter(options) ?? everything
  // no event that is stored after `to` can match
  const waitUntil = performance.now() + Math.min(waitMs, to - now())
  let { after } = options
  let yielded = 0
  let hasWaited = false
  // subscribes before the first read, so that no event is missed between a read and a wait
  const subscription = waitMs > 0 ? notifier.subscribe(projectId) : undefined
  try {
    for (;;) {
      signal?.throwIfAborted()
      // with a filter, the number of events to read is unknown
      const mostRead = isWanted === everything || limit === 0 ? limit - yielded : Number.POSITIVE_INFINITY
      const range = { after, from, limit: mostRead, signal }
      // only the store can find the first event of a future time
      const arrivals = hasWaited && from === undefined ? await readArrivals(projectId, after) : undefined
      for await (const read of arrivals ? [arrivals.events] : store.read(projectId, range)) {
        const page = selectEvents(read, { isWanted, to, limit: limit - yielded })
        yielded += page.events.length
        after = page.scanned.at(-1)?.cursor ?? after
        if (page.scanned.length > 0) yield page
        signal?.throwIfAborted()
        if (page.scanned.length < read.length || yielded === limit) return
      }
      const waitLeftMs = waitUntil - performance.now()
      if (arrivals?.isPart) continue
      if (yielded > 0 || limit === 0 || waitLeftMs <= 0) return
      hasWaited = true
      await subscription?.next(Math.min(waitLeftMs, store.watch ? watchedPollMs : pollMs), signal)
    }
  } finally {
    subscription?.end()
  }
}

const everything = () => true

interface Selection {
  isWanted: (bytes: Uint8Array) => boolean
  to: number
  limit: number
}

/** Filters events, until one was received at `to` or later, or `limit` of them match. */
function selectEvents(read: readonly StoredEvent[], { isWanted, to, limit }: Selection): EventPage {
  const events: StoredEvent[] = []
  let count = 0
  for (const event of read) {
    if (event.receivedAt >= to || events.length === limit) break
    count++
    if (isWanted(event.bytes)) events.push(event)
  }
  return { events, scanned: read.slice(0, count) }
}

/** Yields the events of pages one by one, until a signal aborts or the consumer leaves. */
export function readEach<Options extends ReadEventsOptions>(
  signals: readonly (AbortSignal | undefined)[],
  options: Options,
  pagesOf: (options: Options & { signal: AbortSignal }) => AsyncIterable<EventPage>,
): EndableRead<StoredEvent> {
  return endableRead(signals, (signal) => {
    const own = { ...options, signal }
    return eachEvent(pagesOf(own), own)
  })
}

async function* eachEvent(
  pages: AsyncIterable<EventPage>,
  { onProgress = () => {}, signal }: ReadEventsOptions,
): AsyncGenerator<StoredEvent, void> {
  for await (const { events, scanned } of pages) {
    let count = 0
    for (const each of scanned) {
      const event = events[count]
      if (event && each === event) {
        count++
        yield event
      }
      onProgress(each.cursor)
      signal?.throwIfAborted()
    }
  }
}

/**
 * Checks options from JavaScript.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function checkReadEventsOptions({ after, limit, from, to, waitMs, ...filter }: ReadPagesOptions): void {
  if (after !== undefined && typeof after !== 'string') {
    throw new IngestError('invalid-argument', 'after must be a cursor, or undefined to read from the beginning.')
  }
  for (const [name, value] of Object.entries({ limit, waitMs })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) continue
    const unit = name === 'limit' ? 'events' : 'milliseconds'
    throw new IngestError('invalid-argument', `${name} must be a whole number of ${unit}, at least 0.`)
  }
  for (const [name, value] of Object.entries({ from, to })) {
    if (value === undefined || Number.isSafeInteger(value)) continue
    throw new IngestError('invalid-argument', `${name} must be a whole number of milliseconds since 1970.`)
  }
  checkEventFilter(filter)
}

/** The part of an Ingest, embedded or over HTTP, that `followEvents` needs. */
export interface PageReader {
  readPages(options?: ReadPagesOptions): AsyncIterable<EventPage>
}

/** Options of `followEvents`. */
export type FollowOptions = Omit<ReadEventsOptions, 'limit' | 'to' | 'waitMs'>

/** How long each long poll waits; callers do not notice when one ends and the next begins. */
const followWaitMs = 600_000

/**
 * The project's events, oldest first, and then new ones as they are stored. It never ends on its own: leave the loop,
 * or abort the signal, which makes it reject with the signal's reason. To follow only new events:
 *
 * ```ts
 * const project = ingest.project('game-1')
 * const after = await project.lastCursor()
 * for await (const { cursor, bytes } of followEvents(project, { after })) …
 * ```
 *
 * @throws {IngestError} the codes of `readEvents`; to resume, continue after the last cursor
 */
export function followEvents(ingest: PageReader, options: FollowOptions = {}): EndableRead<StoredEvent> {
  return readEach([options.signal], options, (own) => follow(ingest, own))
}

async function* follow(
  ingest: PageReader,
  { onProgress: _, ...options }: FollowOptions,
): AsyncGenerator<EventPage, never> {
  let { after } = options
  for (;;) {
    const position = after === undefined ? {} : { after }
    for await (const page of ingest.readPages({ ...options, ...position, waitMs: followWaitMs })) {
      after = page.scanned.at(-1)?.cursor ?? after
      yield page
    }
  }
}

/**
 * One line of NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` and a line feed. The event keeps the
 * bytes that were sent, except that line breaks between tokens become spaces. An erased event has
 * `"erased":"<eventId>"` instead of `event`.
 */
export function eventLine(event: StoredEvent): Buffer {
  return Buffer.concat(eventLineParts(event))
}

/** The parts of an {@link eventLine}, so that many lines can be joined at once. */
export function eventLineParts({ cursor, receivedAt, bytes, erased }: StoredEvent): Uint8Array[] {
  if (erased !== undefined) return [Buffer.from(`${JSON.stringify({ cursor, receivedAt, erased })}\n`)]
  const start = Buffer.from(`{"cursor":${JSON.stringify(cursor)},"receivedAt":${receivedAt},"event":`)
  return [start, withoutLineBreaks(bytes), lineEnd]
}

function withoutLineBreaks(bytes: Uint8Array): Uint8Array {
  if (!bytes.includes(lineFeed) && !bytes.includes(carriageReturn)) return bytes
  return bytes.map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte))
}

const lineEnd = Buffer.from('}\n')
