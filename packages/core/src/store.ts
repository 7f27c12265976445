import type { ChunkUpload, Digest, Manifest, MapId, MapKey } from './maps/map.ts'
import type { Project } from './projects/project.ts'

/**
 * The position of a reader in the events of one project of one store: an opaque string of at most 40 of
 * `A-Z a-z 0-9 _ -`, made by `eventCursors`.
 */
export type Cursor = string

/** One event of a batch, as the store needs to know it. */
export interface AppendEvent {
  eventId: string
  /** The build that it references, which storing it freezes. */
  buildId?: string
  /** Its exact bytes: `body.subarray(start, end)`. */
  start: number
  end: number
}

/** The valid events of one batch, no id twice, in the order in which they were sent. */
export interface AppendBatch {
  /** The body as it came: a JSON object with an array `events`, UTF-8. The store may keep it; nobody changes it. */
  body: Uint8Array
  /** How many elements the `events` array of the body has. */
  count: number
  events: readonly AppendEvent[]
  /** Milliseconds since 1970. What was stored last may have been received later, and then so was this. */
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
  /** Milliseconds since 1970. Along the log of a project it never decreases, whatever clocks do. */
  receivedAt: number
  /** The event exactly as it was sent, byte for byte. */
  bytes: Uint8Array
}

export interface ReadOptions {
  /** Start behind this event; from the beginning without it. */
  after?: Cursor
  /** At most so many events; all without it. */
  limit?: number
  /** Only events that were received then or later, in milliseconds since 1970: found without reading those before. */
  from?: number
}

/** A map that can be read: all of its chunks are there, and are what its manifest says. */
export interface CompleteMap {
  manifest: Manifest
  /** Milliseconds since 1970. */
  publishedAt: number
}

/** A manifest that waits for chunks. */
export interface PendingMap {
  manifest: Manifest
  /** When it was last published, or one of its chunks came: milliseconds since 1970. */
  touchedAt: number
}

/** What is published for one place of one build. */
export interface MapContents {
  complete?: CompleteMap
  /** What becomes the complete map once its chunks are there. */
  pending?: PendingMap
}

/** What a store knows of one map. */
export interface MapSlot extends MapContents {
  /**
   * When the first event that references the build was stored, in milliseconds since 1970; the build is open without.
   */
  frozenAt?: number
}

/** What becomes of a map: `contents` replaces all that there was when it is there, `result` is handed to the caller. */
export interface MapDecision<T> {
  contents?: MapContents
  result: T
}

/** The chunks that an update of a map is about. */
export interface MapChunks {
  /** Chunks that the decision wants to know of whether they are there. */
  digests?: readonly Digest[]
  /** Chunks that are stored in the same step, those of them that the new contents name. No digest twice. */
  uploads?: readonly ChunkUpload[]
  /** Refuses, with `map-quota-exceeded`, contents that raise the project's pending bytes above this. */
  pendingBytesMax?: number
}

export interface MapSelection {
  placeId?: string
  buildId?: string
  /** Only what comes after this one. */
  after?: MapId
  /** At most so many. */
  limit: number
}

export interface MapEntry extends MapId {
  slot: MapSlot
}

/** A chunk whose digest was computed. */
export interface NewChunk extends ChunkUpload {
  /** Milliseconds since 1970. */
  receivedAt: number
  /** Refuses, with `map-quota-exceeded`, a chunk that raises the project's pending bytes above this. */
  pendingBytesMax?: number
}

/** What a project has stored. */
export interface Totals {
  events: number
  /** Batches of which at least one event was stored. */
  batches: number
  /** Bytes of the stored events' batches, as they are kept. */
  bytes: number
}

/** When a project's events came. Times are those of batches, in milliseconds since 1970. */
export interface Activity {
  /** Of the first batch in the log. */
  firstAt: number
  /** Of the last one. */
  lastAt: number
  /**
   * How many events came since then: what was asked for, or when the oldest came of as many batches as may be counted.
   */
  recent: { events: number; since: number }
}

export interface BuildSelection {
  /** Only what comes after this build. */
  after?: string
  /** At most so many. */
  limit: number
}

/** What a store knows of one build: an event froze it, or a map is published for it, or both. */
export interface BuildEntry {
  buildId: string
  /** When the first event that references it was stored, in milliseconds since 1970; it is open without. */
  frozenAt?: number
  /** The places of which anything is published. */
  maps: number
}

/** What becomes of a project: `project` is written when it is there, `result` is handed to the caller. */
export interface ProjectDecision<T> {
  project?: Project
  result: T
}

/**
 * What keeps events, maps and projects: each operation is one whole decision, atomic, and durable when it resolves.
 *
 * Arguments are valid when they arrive. An operation that rejects has changed nothing; it rejects with an
 * {@link IngestError}: `store-closed` after `close`, `disk-full` while there is no space, `overloaded` when too much
 * waits, `store-failed` when the store can no longer be trusted. `storeChecks` of `@ingest/core/testing` holds this
 * contract as checks.
 */
export interface Store {
  /**
   * Stores the events of `batch` that the project does not have yet, in their order, and freezes the builds that these
   * reference, all in one step: a manifest that waits to replace a complete map of such a build is dropped. Of
   * concurrent appends of one id, over all processes, exactly one stores it. Resolves once what it stored would survive
   * a power cut; nobody sees it before.
   */
  append(projectId: string, batch: AppendBatch): Promise<AppendResult>
  /** For each id, whether the project has an event with it. */
  known(projectId: string, eventIds: readonly string[]): Promise<boolean[]>
  /** The event with this id. */
  find(projectId: string, eventId: string): Promise<StoredEvent | undefined>
  /**
   * The project's events, oldest first, each once, and those that arrive while it runs.
   *
   * @throws {IngestError} `invalid-cursor` at the first step, for a cursor of another store, epoch or project, and for
   *   one whose event is not stored here, also where another event has taken its position.
   */
  read(projectId: string, options?: ReadOptions): AsyncIterable<StoredEvent>
  /** The cursor of the last event; without events, one behind which all of them will come. */
  lastCursor(projectId: string): Promise<Cursor>
  /** What is known of one map. */
  map(key: MapKey): Promise<MapSlot>
  /** The maps of a project of which anything is published, by build and then by place, in the order of their UTF-8. */
  maps(projectId: string, selection: MapSelection): Promise<MapEntry[]>
  /**
   * Reads, decides and writes a map in one step, in one order with all appends, over all processes. `decide` is pure:
   * it is given the slot and which of `chunks.digests` the project has, and may be called again after a lost race. What
   * it throws is what `updateMap` rejects with, with nothing written.
   *
   * Chunks that the new contents name cannot go as long as they do; chunks that no map of the project names any more go
   * in the same step.
   */
  updateMap<T>(
    key: MapKey,
    chunks: MapChunks,
    decide: (slot: MapSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
  ): Promise<T>
  /** Stores a chunk that a map of the project names, complete or pending; it is `undeclared` when none does. */
  putChunk(projectId: string, chunk: NewChunk): Promise<'stored' | 'existing' | 'undeclared'>
  /**
   * What `use` makes of the bytes of a chunk of this project, which are valid, and not to be changed, while it runs.
   */
  chunk<T>(projectId: string, digest: Digest, use: (bytes: Uint8Array) => T): Promise<T | undefined>
  /** Those of `digests` that are chunks of this project. */
  presentChunks(projectId: string, digests: readonly Digest[]): Promise<ReadonlySet<Digest>>
  /** The pending maps of a project of which no chunk is missing, at most so many. */
  readyMaps(projectId: string, limit: number): Promise<MapId[]>
  /**
   * The bytes that unfinished uploads of a project hold: {@link manifestBytes} of each pending manifest, and the sizes
   * of the chunks that only these name. Complete maps are not counted, nor what a freeze has pinned: the pending
   * manifest of a frozen build that has no complete map for the place.
   */
  pendingBytes(projectId: string): Promise<number>
  /** Drops the pending maps, of all projects, that were last touched before this time, unless their build is frozen. */
  dropIdleMaps(touchedBefore: number): Promise<void>
  /** What the project has stored so far. */
  totals(projectId: string): Promise<Totals>
  /**
   * When the project's events came; undefined when there are none. The log is walked back to the first batch that came
   * before `since`, over `batchesMax` at most, so it costs the same however much is stored.
   */
  activity(projectId: string, recent: { since: number; batchesMax: number }): Promise<Activity | undefined>
  /** The builds of a project, in the order of their UTF-8. */
  builds(projectId: string, selection: BuildSelection): Promise<BuildEntry[]>
  /** The projects that anything was stored for, in the order of their bytes. */
  projects(): Promise<string[]>
  /** The project as it was last written, by any process. */
  project(projectId: string): Promise<Project | undefined>
  /**
   * Reads, decides and writes a project in one step. `decide` is pure: it may be called again after a lost race, and
   * what it throws is what `updateProject` rejects with, with nothing written.
   */
  updateProject<T>(projectId: string, decide: (project: Project | undefined) => ProjectDecision<T>): Promise<T>
  /** Resolves if an append could succeed now; rejects with what stands in its way. */
  check(): Promise<void>
  /** Finishes what has begun, then lets go of everything. May be called twice. */
  close(): Promise<void>
}
