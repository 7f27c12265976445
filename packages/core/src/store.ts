import type {
  ActivityRange,
  ActivityRow,
  ActivityToPut,
  AppendBatch,
  AppendResult,
  BuildSelection,
  ClockDoubt,
  Digest,
  Entries,
  EntryDecision,
  EntryKind,
  EventCount,
  EventRange,
  ExpiryStep,
  FoundBuilds,
  MapChunks,
  MapDecision,
  MapEntry,
  MapKey,
  MapSelection,
  MapSlot,
  NewChunk,
  PendingTotals,
  PutChunkOutcome,
  ReadOptions,
  StoreCommit,
  StoredEvent,
  StoreMetric,
  Totals,
  UpdatedSlot,
} from './store-types.ts'

/**
 * The contract of a store. It keeps events, maps, one value of each kind for a project, and activity. `storeChecks` of
 * `@ingest/checks` checks this contract; examples/sqlite-store.js keeps it in one file.
 *
 * - Each operation is atomic, and durable when it resolves; no reader sees it earlier. Concurrent operations, in any
 *   process, take effect one after another. Those marked *(steps)* consist of several such operations, so that they
 *   delay others little. No transaction is held: `decide` functions are pure, and are called again after a lost race.
 *   If one throws, the operation rejects with the same error and nothing is written.
 * - Arguments are valid: core has checked them. Names of projects, events, builds and places are at most 256 bytes of
 *   UTF-8 without control characters and lone surrogates (a place may be empty), and are compared and listed by these
 *   bytes. Times are milliseconds since 1970. An unknown project is an empty one.
 * - An operation that rejects has changed nothing and will not be completed later, unless the outcome of its code is
 *   unknown ({@link IngestError.isOutcomeUnknown}): then it may have completed, and repeating it is safe. Completed
 *   steps stay done. The error of one operation does not affect others.
 * - An operation rejects with an {@link IngestError}: `store-closed` after `close`, even between two steps;
 *   `disk-full`, `overloaded`, `store-locked` while another process blocks writes, `store-damaged` when the operation
 *   needs damaged bytes; with an unknown outcome: `store-unavailable`, `store-failed` when the store can no longer be
 *   trusted, `internal-error` for a bug.
 * - Operations are own properties without `this`, and results plain objects, since checks and wrappers copy both. Those
 *   with a question mark are optional. Neither side changes arguments or results afterwards; of bytes in arguments, a store
 *   keeps only those of `AppendBatch.body`.
 *
 * @experimental
 */
export interface Store extends EventStore, MapStore, EntryStore, ActivityStore {
  /**
   * Deletes, of all projects *(steps)*, pending maps that are void or expired (`isExpired`), chunks that a crash left,
   * and rows of activity that began before a time. If sweeping the activity fails, it sweeps the maps before it rejects.
   */
  sweep(before: { mapsTouched: number; activity: number }): Promise<void>
  /** Resolves if an append could succeed now; rejects with the reason otherwise. */
  check(): Promise<void>
  /** Finishes the operations in flight, then releases all resources. May be called twice. */
  close(): Promise<void>
  /**
   * Announces this process as a server of the store until `close`. Returns a function that returns the number of live
   * servers, this one included. A store without this operation does not count its servers.
   */
  registerServer?(): () => number
  /** Metrics of the store, cheap enough for every scrape. */
  measure?(): Promise<readonly StoreMetric[]>
  /** Calls `onCommit` after each commit of this process, until the returned function is called. */
  watchCommits?(onCommit: (commit: StoreCommit) => void): () => void
}

/** Events: a log for each project. A position is never used twice, and an erased event stays as a tombstone. */
export interface EventStore {
  /** The key of the hashes in {@link BatchEvents}, 16 secret random bytes, if the store uses them. */
  readonly hashKey?: Uint8Array
  /**
   * Appends the events that are new to the project, in their order, and freezes the open builds that they reference:
   * pending replacements of complete maps of these builds become void (`isPendingVoid`). Of concurrent appends of one
   * id, exactly one stores it. An event whose bytes are only the JSON string of its id is stored as a tombstone, so
   * that copies of a store keep erased ids known.
   */
  append(projectId: string, batch: AppendBatch): Promise<AppendResult>
  /** For each id, whether the project has an event or a tombstone with it. Reads no event. */
  known(projectId: string, eventIds: readonly string[]): Promise<boolean[]>
  /** The event with this id, or its tombstone; undefined if it was never stored. */
  find(projectId: string, eventId: string): Promise<StoredEvent | undefined>
  /**
   * The events, oldest first, each exactly once, including those that are stored while it reads. Yields pages with
   * about the events or the bytes of a batch at most, since callers process a page in one turn of the event loop. A page
   * may be empty.
   *
   * @throws {IngestError} `invalid-cursor` at the first step, for a cursor of another store, epoch or project, and if
   *   its event is not stored here, even if another event is at its position
   */
  read(projectId: string, options?: ReadOptions): AsyncIterable<readonly StoredEvent[]>
  /** The cost does not depend on how much is stored. */
  totals(projectId: string): Promise<Totals>
  /**
   * Counts the events of a range in its first `batchesMax` batches, 0 or more. Events erased by `expire` do not count,
   * other tombstones do. Reads no event, and the cost does not depend on how much is stored.
   *
   * @throws {IngestError} `invalid-cursor`, like `read`
   */
  count(projectId: string, range: EventRange, batchesMax: number): Promise<EventCount>
  /**
   * Replaces events by tombstones *(steps)*: their bytes are deleted, and an append of the same id is a duplicate
   * without a conflict. Order, positions, cursors, freezes and the numbers of events and batches stay. At most 1,000
   * ids, which may repeat; resolves, also without ids, once the tombstones that readers see are durable. Returns how
   * many events it erased; of concurrent erasures of one id, exactly one counts it.
   */
  erase(projectId: string, eventIds: readonly string[]): Promise<number>
  /**
   * Erases some of the oldest events that were received before a time, in one small transaction: repeat it until it is
   * done. The store remembers how far it has come, so that no reader scans the earlier tombstones.
   */
  expire(projectId: string, before: number): Promise<ExpiryStep>
  /**
   * Calls `onAppend` soon after any process has stored events; calls may be lost. Returns a function that ends it.
   * Without `watch`, core polls.
   */
  watch?(projectId: string, onAppend: () => void): () => void
  /**
   * Checks the interval from `since` to `now` against a source other than the wall clock. Returns why it cannot be
   * trusted; undefined if the source confirms it.
   */
  findClockDoubt?(since: number, now: number): Promise<ClockDoubt | undefined>
}

/** Maps: each place of a build is a slot with a complete map, a pending one, or both. Manifests name chunks. */
export interface MapStore {
  map(key: MapKey): Promise<MapSlot>
  /** Complete or pending maps, by build and then by place; the cost grows with those that are listed. */
  maps(projectId: string, selection: MapSelection): Promise<MapEntry[]>
  /**
   * Builds that are frozen or have maps: open ones first, then the newest freeze first, ties by descending bytes of the
   * id. The cost grows with `limit` and, for a search, with the builds examined, at most {@link buildsSearchedMax}.
   */
  builds(projectId: string, selection: BuildSelection): Promise<FoundBuilds>
  /**
   * Reads, decides and writes a slot, serialized with all appends. `contents` replaces the slot; without maps it is
   * removed. A decision without contents costs only a read. A project has a chunk while one of its maps names it: the
   * update that removes the last name removes the chunk, though chunks of void maps may be found until `sweep`.
   */
  updateMap<T>(
    key: MapKey,
    chunks: MapChunks,
    decide: (slot: UpdatedSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
  ): Promise<T>
  /** Stores a chunk that a map names, complete or pending, with its size or a larger one. */
  putChunk(projectId: string, chunk: NewChunk): Promise<PutChunkOutcome>
  /** @throws {IngestError} `store-damaged` for bytes that do not have this digest */
  readChunk(projectId: string, digest: Digest): Promise<Uint8Array | undefined>
  /** Counted on each call: core lets a project have at most 1,000 pending maps. */
  pendingTotals(projectId: string): Promise<PendingTotals>
}

/** Entries: one value of JSON of each kind for a project. */
export interface EntryStore {
  /** How long a process may cache a project that it read, and so accept a revoked key. Default: 0 milliseconds. */
  readonly projectAgeMs?: number
  entry<Kind extends EntryKind>(kind: Kind, projectId: string): Promise<Entries[Kind] | undefined>
  /** Reads, decides and writes. `entry`, if present, is written, or removed by null. */
  updateEntry<Kind extends EntryKind, T>(
    kind: Kind,
    projectId: string,
    decide: (entry: Entries[Kind] | undefined) => EntryDecision<Kind, T>,
  ): Promise<T>
  /** Projects with an entry of a kind; of the kind `project`, the default, also those with an event or a map. */
  projects(kind?: EntryKind): Promise<string[]>
}

/** Activity: rows that processes write and core merges. Rows alone do not create a project. */
export interface ActivityStore {
  /** At most {@link activityRowsMax} rows *(steps)*; replaces the row of the same project, span, time and writer. */
  putActivity(rows: readonly ActivityToPut[]): Promise<void>
  /** Rows ordered by `at`, then `writer`. Rows that are written or swept meanwhile may be missing. */
  activity(projectId: string, range: ActivityRange): AsyncIterable<ActivityRow>
}
