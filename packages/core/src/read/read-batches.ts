import { setTimeout } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import type { Cursor } from '../json/cursor.ts'
import type { StoredEvent } from '../store-types.ts'
import { type EndableRead, endableRead } from './endable-read.ts'
import { type EventFilter, filterOf } from './event-filter.ts'
import { checkReadEventsOptions, type PageReader, type ReadPagesOptions } from './read-events.ts'

/** Stored events, and the cursor to commit together with them. */
export interface EventBatch {
  /** Oldest first. Empty if only the cursor moves, past events that are filtered out or to the end of the log. */
  events: StoredEvent[]
  /** Pass it as `after`, with the same filter, to continue. */
  cursor: Cursor
  /** Whether no further matching event was stored when the batch ended. */
  caughtUp: boolean
}

/** The filter, `from` and `to` are those of `readEvents`. */
export interface ReadBatchesOptions extends EventFilter {
  /** Only events after this one. Default: from the beginning. */
  after?: Cursor
  from?: number
  /** Cannot be combined with `follow`. */
  to?: number
  /** Maximum number of events of a batch, 1 to 100,000. Default: 1,000. */
  eventsMax?: number
  /**
   * Maximum bytes of the events of a batch, 1 to 67,108,864; a larger event forms a batch by itself. Default: 8 MiB.
   */
  bytesMax?: number
  /**
   * How long a batch that has events but is not full waits for more at the end of the log, in milliseconds, at most an
   * hour. Default: 0.
   */
  maxWaitMs?: number
  /** Whether to continue with events that are stored later. Default: false; the last batch is `caughtUp`. */
  follow?: boolean
  /** Reading rejects with the reason of the signal as soon as it aborts. */
  signal?: AbortSignal
}

export const batchLimits = { eventsMax: 100_000, bytesMax: 64 * 2 ** 20, maxWaitMs: 3_600_000 } as const

/** A batch is yielded after scanning for this long even if no event matches, for its cursor. */
const scanMsMax = 30_000
/** How often a batch that is not full reads again. */
const fillMs = 1_000

/** The part of an Ingest, embedded or over HTTP, that `readBatches` needs. */
export interface EventReader extends PageReader {
  lastCursor(options?: { signal?: AbortSignal }): Promise<Cursor>
}

export interface ReadBatchesEffects {
  /** A monotonic clock, in milliseconds. */
  now: () => number
  /** Rejects with the signal's reason when it aborts. */
  sleep: (ms: number, signal: AbortSignal | undefined) => Promise<unknown>
}

const realEffects: ReadBatchesEffects = {
  now: () => performance.now(),
  async sleep(ms, signal) {
    await setTimeout(ms, undefined, signal ? { signal } : {}).catch(() => {})
    signal?.throwIfAborted()
  },
}

/** The batches of `Ingest.readBatches`. */
export function readBatches(
  ingest: EventReader,
  options: ReadBatchesOptions = {},
  effects: ReadBatchesEffects = realEffects,
): EndableRead<EventBatch> {
  return endableRead([options.signal], (signal) => readEach(ingest, { ...options, signal }, effects))
}

async function* readEach(
  ingest: EventReader,
  options: ReadBatchesOptions,
  { now, sleep }: ReadBatchesEffects,
): AsyncGenerator<EventBatch, void> {
  checkReadBatchesOptions(options)
  const { eventsMax = 1_000, bytesMax = 8 * 2 ** 20, maxWaitMs = 0, follow = false, after, ...selection } = options
  // read before the events: if the first read finds nothing, no matching event precedes this cursor
  const start = after ?? (await ingest.lastCursor(selection))
  let position = after
  let isCaughtUp = false
  for (;;) {
    const batch = startBatch(ingest, { eventsMax, bytesMax, selection, after: position }, now)
    // after a batch at the end, wait for events: another empty batch would be useless
    const pollMs = isCaughtUp ? scanMsMax : 0
    let state = await batch.fill(pollMs)
    while (pollMs > 0 && batch.cursor() === position) state = await batch.fill(pollMs)
    const waitUntil = now() + maxWaitMs
    while (state === 'end' && batch.events.length > 0 && now() < waitUntil) {
      await sleep(Math.min(waitUntil - now(), fillMs), selection.signal)
      state = await batch.fill(0)
    }
    position = batch.cursor()
    isCaughtUp = state === 'end'
    yield { events: batch.events, cursor: position ?? start, caughtUp: isCaughtUp }
    if (isCaughtUp && !follow) return
  }
}

/** Why a batch stopped reading: end of the stored events, its limits, or its scan time. */
type FillState = 'end' | 'full' | 'scanned'

interface BatchRules {
  eventsMax: number
  bytesMax: number
  selection: ReadPagesOptions
  after: Cursor | undefined
}

function startBatch(ingest: EventReader, rules: BatchRules, now: () => number) {
  const { eventsMax, bytesMax, selection, after } = rules
  const events: StoredEvent[] = []
  const isFiltered = Object.keys(filterOf(selection)).length > 0
  let bytes = 0
  let cursor = after

  return {
    events,
    cursor: () => cursor,

    /** Adds the stored events that fit. If there are none, waits up to `waitMs` for the first. */
    async fill(waitMs: number): Promise<FillState> {
      const scanUntil = now() + scanMsMax
      const position = cursor === undefined ? {} : { after: cursor }
      const limit = eventsMax - events.length
      for await (const page of ingest.readPages({ ...selection, ...position, limit, waitMs })) {
        for (const event of page.events) {
          if (events.length > 0 && bytes + event.bytes.length > bytesMax) return 'full'
          // a copy, so that a matching event does not retain the memory of the whole scan
          events.push(isFiltered ? { ...event, bytes: Uint8Array.prototype.slice.call(event.bytes) } : event)
          bytes += event.bytes.length
          cursor = event.cursor
        }
        cursor = page.scanned.at(-1)?.cursor ?? cursor
        if (now() >= scanUntil) return 'scanned'
      }
      return events.length === eventsMax ? 'full' : 'end'
    },
  }
}

/**
 * Checks options from JavaScript.
 *
 * @throws {IngestError} `invalid-argument`
 */
function checkReadBatchesOptions({ eventsMax, bytesMax, maxWaitMs, follow, ...selection }: ReadBatchesOptions): void {
  checkReadEventsOptions(selection)
  for (const [name, value] of Object.entries({ eventsMax, bytesMax, maxWaitMs })) {
    const [min, max] = [name === 'maxWaitMs' ? 0 : 1, batchLimits[name as keyof typeof batchLimits]]
    if (value === undefined || (Number.isSafeInteger(value) && value >= min && value <= max)) continue
    throw new IngestError('invalid-argument', `${name} must be a whole number from ${min} to ${max}.`, { limit: max })
  }
  if (follow && selection.to !== undefined) {
    throw new IngestError('invalid-argument', 'follow has no end: remove to.')
  }
}
