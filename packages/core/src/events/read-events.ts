import { IngestError } from '../error.ts'
import type { Arrivals } from './event-notifier.ts'
import type { Cursor, EventStore, StoredEvent } from './event-store.ts'
import { wellKnownOf } from './parse-batch.ts'

/** Which events are wanted: those for which each of these members is exactly this. */
export interface EventFilter {
  type?: string
  buildId?: string
}

const backslash = 0x5c

/** Whether an event, as its bytes, is wanted; undefined where every one is. */
export function compileEventFilter({ type, buildId }: EventFilter): ((bytes: Uint8Array) => boolean) | undefined {
  const wanted = Object.entries({ type, buildId }).filter(([, value]) => value !== undefined)
  if (wanted.length === 0) return undefined
  const texts = wanted.map(([, value]) => Buffer.from(`"${value}"`))
  return ({ buffer, byteOffset, length }) => {
    const event = Buffer.from(buffer, byteOffset, length)
    // JSON without an escape has its texts as they are, so most of what is not wanted need not be parsed
    if (!texts.every((text) => event.includes(text)) && !event.includes(backslash)) return false
    const members = wellKnownOf(event)
    return wanted.every(([name, value]) => members[name] === value)
  }
}

/** Which events are read, and how. Times are milliseconds since 1970, of when an event was received. */
export interface ReadEventsOptions extends EventFilter {
  /** Start behind this event; from the beginning without it. */
  after?: Cursor
  /** At most so many events that match; all without it. */
  limit?: number
  /** Only events that were received then or later. */
  from?: number
  /** Only events that were received before. */
  to?: number
  /**
   * How long to wait for an event, in milliseconds, when there is none to begin with. Reading ends once what there is
   * was given. Without it nothing is waited for.
   */
  waitMs?: number
  /** Ends waiting and reading at once: reading rejects with the reason of the signal. */
  signal?: AbortSignal
  /**
   * Told how far it has read: everything up to the cursor was left out, or was given and its reader has come back for
   * more. Whoever goes on behind it never looks at an event twice. An embedded Ingest tells it for each event, a client
   * where an answer ends and for each event that was given.
   */
  onProgress?: (cursor: Cursor) => void
  /**
   * Called with the size of each event that is scanned, wanted or not, before it is filtered: for rate limits. An
   * embedded Ingest calls it, a client does not.
   */
  onScan?: (bytes: number) => void
}

export interface ReadContext {
  store: EventStore
  arrivals: Arrivals
  /** Milliseconds since 1970. */
  now(): number
}

/** How often somebody who waits looks for what other processes have stored, of which nobody tells this one. */
const pollMs = 500

/** The project's events that are wanted, oldest first. */
export async function* readEvents(
  { store, arrivals, now }: ReadContext,
  projectId: string,
  options: ReadEventsOptions,
): AsyncGenerator<StoredEvent, void> {
  const { limit = Number.POSITIVE_INFINITY, from, to = Number.POSITIVE_INFINITY, waitMs = 0, signal } = options
  const { onProgress = () => {}, onScan = () => {} } = options
  const isWanted = compileEventFilter(options) ?? everything
  // what is over does not grow
  const waitUntil = performance.now() + Math.min(waitMs, to - now())
  let { after } = options
  let given = 0
  // before the first look, so that nothing slips through between a look and a wait
  const watch = arrivals.watch(projectId)
  try {
    for (;;) {
      signal?.throwIfAborted()
      const range = {
        ...(after !== undefined && { after }),
        ...(from !== undefined && { from }),
        // of those that are left out, nobody knows how many there are
        ...((isWanted === everything || limit === 0) && { limit: limit - given }),
      }
      for await (const event of store.read(projectId, range)) {
        if (event.receivedAt >= to) return
        onScan(event.bytes.length)
        if (isWanted(event.bytes)) {
          given++
          yield event
        }
        after = event.cursor
        onProgress(after)
        signal?.throwIfAborted()
        if (given === limit) return
      }
      const waitLeftMs = waitUntil - performance.now()
      if (given > 0 || limit === 0 || waitLeftMs <= 0) return
      await watch.next(Math.min(waitLeftMs, pollMs), signal)
    }
  } finally {
    watch.end()
  }
}

const everything = () => true

/** @throws {IngestError} `invalid-argument` */
export function checkReadEventsOptions({ limit, from, to, waitMs, type, buildId }: ReadEventsOptions): void {
  for (const [name, value] of Object.entries({ limit, waitMs })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) continue
    const what = name === 'limit' ? 'events' : 'milliseconds'
    throw new IngestError('invalid-argument', `${name} is a whole number of ${what}.`)
  }
  for (const [name, value] of Object.entries({ from, to })) {
    if (value === undefined || Number.isSafeInteger(value)) continue
    throw new IngestError('invalid-argument', `${name} is a whole number of milliseconds since 1970.`)
  }
  for (const [name, value] of Object.entries({ type, buildId })) {
    if (value === undefined || (typeof value === 'string' && value !== '')) continue
    throw new IngestError('invalid-argument', `${name} is a text that is not empty.`)
  }
}
