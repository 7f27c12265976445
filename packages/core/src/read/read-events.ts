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
export interface ReadEventsOptions extends EventFilter {
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
  /**
   * Called with the cursor up to which every event was filtered out, or yielded and the next one requested. Reading can
   * continue `after` it. An embedded Ingest calls it for each event; a client calls it for each yielded event and at
   * the end of a response.
   */
  onProgress?: (cursor: Cursor) => void
  /**
   * Called with the bytes of each event before it is filtered, for rate limits. Reading continues when the promise
   * resolves. Embedded only.
   */
  onScan?: (bytes: number) => void | Promise<void>
}

/**
 * Reads the events stored since a long poll began to wait. Polls that wake together at the same position share a read.
 */
export type ReadArrivals = (projectId: string, after: Cursor | undefined) => Promise<Arrivals>

interface Arrivals {
  events: readonly StoredEvent[]
  /** Whether there may be more events. */
  isPart: boolean
}

/** Maximum events and bytes of one shared read. It ends after the event that exceeds them. */
const arrivalsMax = { events: 256, bytes: 1_048_576 }

export function createReadArrivals(store: Pick<EventStore, 'read'>): ReadArrivals {
  /** Reads that have not started: a started read may miss the event that woke a poll. */
  const waiting = new Map<string, Promise<Arrivals>>()

  async function read(projectId: string, after: Cursor | undefined): Promise<Arrivals> {
    const events: StoredEvent[] = []
    let bytes = 0
    for await (const event of store.read(projectId, { after, limit: arrivalsMax.events })) {
      events.push(event)
      bytes += event.bytes.length
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
 * The project's events that match the options, oldest first.
 *
 * @throws {IngestError} as `Ingest.readEvents`
 */
export async function* readEvents(
  { store, readArrivals, notifier, now }: ReadContext,
  projectId: string,
  options: ReadEventsOptions,
): AsyncGenerator<StoredEvent, void> {
  checkReadEventsOptions(options)
  const { limit = Number.POSITIVE_INFINITY, from, to = Number.POSITIVE_INFINITY, waitMs = 0, signal } = options
  const { onProgress = () => {}, onScan = () => {} } = options
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
      for await (const event of arrivals?.events ?? store.read(projectId, range)) {
        if (event.receivedAt >= to) return
        const charged = onScan(event.bytes.length)
        if (charged !== undefined) await charged
        if (isWanted(event.bytes)) {
          yielded++
          yield event
        }
        after = event.cursor
        onProgress(after)
        signal?.throwIfAborted()
        if (yielded === limit) return
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

/**
 * Checks options from JavaScript.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function checkReadEventsOptions({ after, limit, from, to, waitMs, ...filter }: ReadEventsOptions): void {
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
export function followEvents(
  ingest: { readEvents(options?: ReadEventsOptions): AsyncIterable<StoredEvent> },
  options: FollowOptions = {},
): EndableRead<StoredEvent> {
  return endableRead([options.signal], (signal) => follow(ingest, { ...options, signal }))
}

async function* follow(
  ingest: { readEvents(options?: ReadEventsOptions): AsyncIterable<StoredEvent> },
  options: FollowOptions,
): AsyncGenerator<StoredEvent, never> {
  let { after } = options
  function onProgress(cursor: string): void {
    after = cursor
    options.onProgress?.(cursor)
  }
  for (;;) {
    const position = after === undefined ? {} : { after }
    yield* ingest.readEvents({ ...options, ...position, waitMs: followWaitMs, onProgress })
  }
}

/**
 * One line of NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` and a line feed. The event keeps the
 * bytes that were sent, except that line breaks between tokens become spaces. An erased event has
 * `"erased":"<eventId>"` instead of `event`.
 */
export function eventLine({ cursor, receivedAt, bytes, erased }: StoredEvent): Buffer {
  if (erased !== undefined) return Buffer.from(`${JSON.stringify({ cursor, receivedAt, erased })}\n`)
  const start = Buffer.from(`{"cursor":${JSON.stringify(cursor)},"receivedAt":${receivedAt},"event":`)
  const line = Buffer.concat([start, bytes, lineEnd])
  if (!hasLineBreak(bytes)) return line
  for (let at = start.length; at < line.length - lineEnd.length; at++) {
    if (line[at] === lineFeed || line[at] === carriageReturn) line[at] = space
  }
  return line
}

function hasLineBreak(bytes: Uint8Array): boolean {
  return bytes.includes(lineFeed) || bytes.includes(carriageReturn)
}

const lineEnd = Buffer.from('}\n')
