import type { Cursor } from '../json/cursor.ts'
import type { BatchEvents } from './batch-events.ts'

/** The valid events of one batch. */
export interface AppendBatch {
  /**
   * The body as it was received: a JSON object with an array `events`, UTF-8. It is not changed; the store may keep it.
   */
  body: Uint8Array
  /** Whether the store may transfer the memory of `body` to another thread, which detaches it. */
  mayTransfer?: boolean
  /** No id occurs twice. `decodeEvents` turns them into objects. */
  events: BatchEvents
  /**
   * Milliseconds since 1970. If the last stored event was received later, its time is stored instead. A time more than
   * {@link aheadMsMax} ahead of the store's clock is stored as that far ahead, so that one wrong time does not apply to
   * all later events.
   */
  receivedAt: number
  /**
   * If the store reports commits, it calls this with the commit that made the batch durable, before the append
   * resolves.
   */
  onCommit?: (commit: StoreCommit) => void
}

/** Requests that a store committed together. */
export interface StoreCommit {
  /** Appends, updates and erasures in the commit. */
  requests: number
  /** From the start of the transaction to its durable end, in milliseconds. */
  durationMs: number
}

/** How far the time of a batch may be ahead of the store's clock, in milliseconds. */
export const aheadMsMax = 1000

/** The result of an append. */
export interface AppendResult {
  /** For each event of the batch: true if this append stored it, false if it was stored before. */
  stored: boolean[]
  /**
   * How many duplicates differ in a byte from the event stored under their id. A tombstone never counts as different.
   */
  conflicts: number
  /** The builds that this append froze. */
  frozen: readonly string[]
}

/** An event as it is stored. */
export interface StoredEvent {
  cursor: Cursor
  /** Milliseconds since 1970. Never decreases along the log of a project, whatever the clocks do. */
  receivedAt: number
  /** The event exactly as it was sent, byte for byte; empty if it was erased. */
  bytes: Uint8Array
  /** The id of an erased event (a tombstone). Absent for events that were not erased. */
  erased?: string
}

/** Selects the events that a store reads. */
export interface ReadOptions {
  /** Start after this event; default: the beginning. */
  after?: Cursor | undefined
  /** At most this many events; default: all. */
  limit?: number
  /** Only events received at this time or later, in milliseconds since 1970. Earlier events are not read. */
  from?: number | undefined
  /** Whether to read erased events too, those of `expire` included. Default: false. */
  erased?: boolean
  /** Reading rejects with the reason of the signal soon after it aborts, even while it finds no event. */
  signal?: AbortSignal | undefined
}

/** One step of a retention. */
export interface ExpiryStep {
  /** Events that the step erased, without those erased before. */
  events: number
  /** By how much this reduced the bytes of the project's {@link Totals}. */
  bytes: number
  /** Whether no event received before the given time is left. */
  isDone: boolean
}

/** A reason to distrust the clock or the times of stored events. */
export interface ClockDoubt {
  /** Describes the finding and what to do. */
  message: string
  /** Whether the clock may be ahead: events may then seem older than they are. */
  mayBeAhead: boolean
}

/** Totals of a stored project. */
export interface Totals {
  /** Erased events included. */
  events: number
  /** Batches of which at least one event was stored. */
  batches: number
  /** What the events that are not erased take, as the store counts it. 0 once all are erased. */
  bytes: number
  /** When the first batch was received, in milliseconds since 1970; undefined without events. */
  firstAt?: number
  /** When the last batch was received, in milliseconds since 1970; undefined without events. */
  lastAt?: number
}

/** How many events a project received since a time, in milliseconds since 1970. */
export interface RecentEvents {
  events: number
  since: number
}

/** The events of a project after a cursor, without those that `expire` has erased. */
export interface EventsAfter {
  /** Events of the first `batchesMax` batches. Erased events are counted. */
  events: number
  /** Number of further batches, each with at least one event. */
  batchesLeft: number
  /** Time of receipt of the first event after the cursor, in milliseconds since 1970; undefined if there is none. */
  firstAt?: number
}

/** The part of a store that keeps events; {@link Store} says what holds for all of its operations. */
export interface EventStore {
  /**
   * The key of the hashes in {@link BatchEvents}, 16 secret random bytes, if the store uses these hashes. Otherwise
   * Ingest hashes with a key of its own.
   */
  readonly hashKey?: Uint8Array
  /**
   * Stores the events of `batch` that are new to the project, in their order, and freezes the builds that they
   * reference, in one transaction: pending replacements of complete maps of these builds are dropped. Of concurrent
   * appends of one id in any process, exactly one stores it. Concurrent appends are stored in any order. Resolves once
   * the events would survive power loss; no reader sees them before.
   *
   * An event whose bytes are only the JSON string of its id is stored as a tombstone. Copies of a store use this to
   * keep erased ids known.
   */
  append(projectId: string, batch: AppendBatch): Promise<AppendResult>
  /** For each id, whether the project has an event with it, erased or not. */
  known(projectId: string, eventIds: readonly string[]): Promise<boolean[]>
  /** The event with this id, or its tombstone; undefined if it was never stored. */
  find(projectId: string, eventId: string): Promise<StoredEvent | undefined>
  /**
   * The project's events, oldest first, each once, including those that are stored while it runs.
   *
   * @throws {IngestError} `invalid-cursor` at the first step, for a cursor of another store, epoch or project, and if
   *   the event of the cursor is not stored here, even if another event is at its position.
   */
  read(projectId: string, options?: ReadOptions): AsyncIterable<StoredEvent>
  /** The cursor of the last event; without events, a cursor before all of them. */
  lastCursor(projectId: string): Promise<Cursor>
  /**
   * Calls `onAppend` soon after any process has stored events of the project. It is a hint: calls may be early, late or
   * too many. Returns a function that ends it. A store without `watch` is polled for events of other processes.
   */
  watch?(projectId: string, onAppend: () => void): () => void
  totals(projectId: string): Promise<Totals>
  /**
   * Replaces the events with these ids by tombstones. Their bytes are deleted, and an append of the same id, with any
   * bytes, is a duplicate and no conflict. Their order and positions, the freezes of their builds and the number of
   * events and batches stay as they are, and cursors at them stay valid. Of concurrent erasures of one id exactly one
   * counts it.
   *
   * At most 1,000 ids; an id may occur twice. Each event is erased atomically, in one or more transactions: repeat a
   * rejected call. Resolves, also without ids, once the erasures that readers see are durable. Returns how many events
   * it erased, without ids that are unknown or erased already.
   */
  erase(projectId: string, eventIds: readonly string[]): Promise<number>
  /**
   * Erases the oldest events that were received before `before`, in milliseconds since 1970, in one small transaction
   * that delays concurrent appends little: of a few megabytes at most. Call it again until it is done. The store
   * remembers how far it has come: neither the next call nor a reader scans the tombstones before that.
   */
  expire(projectId: string, before: number): Promise<ExpiryStep>
  /**
   * Checks a clock that reads `now` against another source of the store: whether the time from `since` to `now` has
   * really passed. Both are in milliseconds since 1970. Undefined if there is no doubt. A store without this operation
   * trusts the clock.
   */
  findClockDoubt?(since: number, now: number): Promise<ClockDoubt | undefined>
  /**
   * Counts the events of the batches received since `since`, erased ones included, in at most the newest `batchesMax`
   * batches. If `batchesMax` batches are recent enough, the result's `since` is the time of the oldest of them. The
   * cost does not depend on how much is stored.
   */
  countSince(projectId: string, since: number, batchesMax: number): Promise<RecentEvents>
  /**
   * Counts the events after a cursor, in at most `batchesMax` batches, which may be 0. The cost does not depend on how
   * much is stored.
   *
   * @throws {IngestError} `invalid-cursor`, as `read`
   */
  countAfter(projectId: string, after: Cursor, batchesMax: number): Promise<EventsAfter>
}
