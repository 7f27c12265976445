import type { BatchEvents } from './batch-events.ts'

/**
 * The position of a reader in the events of one project of one store: an opaque string of at most 40 of
 * `A-Z a-z 0-9 _ -`, made by `eventCursors`.
 */
export type Cursor = string

/** The valid events of one batch. */
export interface AppendBatch {
  /** The body as it was received: a JSON object with an array `events`, UTF-8. It is not changed; the store may keep it. */
  body: Uint8Array
  /** Whether the store may transfer the memory of `body` to another thread, which empties it. */
  mayTransfer?: boolean
  /** No id twice. `decodeEvents` turns them into objects. */
  events: BatchEvents
  /** Milliseconds since 1970. If the last stored event was received later, that time is stored instead. */
  receivedAt: number
}

export interface AppendResult {
  /** For each event of the batch, whether this append stored it; false for one that was stored before. */
  stored: boolean[]
  /** How many of the others differ from what is stored under their id. */
  conflicts: number
}

export interface StoredEvent {
  cursor: Cursor
  /** Milliseconds since 1970. Never decreases along the log of a project, whatever the clocks do. */
  receivedAt: number
  /** The event exactly as it was sent, byte for byte. */
  bytes: Uint8Array
}

export interface ReadOptions {
  /** Start after this event; default: the beginning. */
  after?: Cursor
  /** At most this many events; default: all. */
  limit?: number
  /** Only events received at this time or later, in milliseconds since 1970: earlier ones are not read. */
  from?: number
}

/** What a project has stored. */
export interface Totals {
  events: number
  /** Batches of which at least one event was stored. */
  batches: number
  /** Bytes of the stored events' batches, as they are kept. */
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
   * appends of one id, over all processes, exactly one stores it. Concurrent appends are stored in any order. Resolves
   * once the events would survive power loss; no reader sees them before.
   */
  append(projectId: string, batch: AppendBatch): Promise<AppendResult>
  /** For each id, whether the project has an event with it. */
  known(projectId: string, eventIds: readonly string[]): Promise<boolean[]>
  /** The event with this id. */
  find(projectId: string, eventId: string): Promise<StoredEvent | undefined>
  /**
   * The project's events, oldest first, each once, including those that are stored while it runs.
   *
   * @throws {IngestError} `invalid-cursor` at the first step, for a cursor of another store, epoch or project, and for
   *   one whose event is not stored here, also where another event has taken its position.
   */
  read(projectId: string, options?: ReadOptions): AsyncIterable<StoredEvent>
  /** The cursor of the last event; without events, a cursor before all of them. */
  lastCursor(projectId: string): Promise<Cursor>
  /**
   * Calls `onAppend` soon after any process stored events of the project, as a hint: calls may be early, late or too
   * many. Returns a function that ends it. Without it, long polls of events of other processes read the store again and
   * again.
   */
  watch?(projectId: string, onAppend: () => void): () => void
  totals(projectId: string): Promise<Totals>
  /**
   * Counts the events of the batches received since `since`, of the newest `batchesMax` batches at most: if all of these
   * are as recent, the result's `since` is the time of the oldest. The cost does not depend on how much is stored.
   */
  countSince(projectId: string, since: number, batchesMax: number): Promise<RecentEvents>
}
