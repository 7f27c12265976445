import type { Cursor } from './json/cursor.ts'

export interface AppendBatch {
  /** A JSON object with an array `events`, as it was received. The store may keep it, but not change it. */
  body: Uint8Array
  /** Whether the store may transfer `body` to another thread, which detaches it here. */
  mayTransfer?: boolean
  /** No id occurs twice; may be empty. `decodeEvents` turns them into objects with offsets into `body`. */
  events: BatchEvents
  /** The stored time is at least that of the last event, and at most {@link aheadMsMax} ahead of the store's clock. */
  receivedAt: number
  /** Called before the append resolves, if the store reports commits. */
  onCommit?: (commit: StoreCommit) => void
}

/**
 * Events of a batch as rows of numbers: creating an object with strings for each event would take longer than scanning
 * and storing it. Offsets are into the body of the batch.
 */
export interface BatchEvents {
  /** `wordsPerEvent` words for each event, in the order in which they were sent; `column` names them. */
  rows: Uint32Array
  /** The builds that the events reference, each once. */
  builds: readonly string[]
  /** The types of the events, each once. */
  types: readonly string[]
  /** The key of the hashes of the ids, 16 bytes. */
  hashKey: Uint8Array
}

/** Bounds the effect of a wrong clock on all later events: see {@link AppendBatch.receivedAt}. */
export const aheadMsMax = 1000

export interface AppendResult {
  /** For each event: true if this append stored it, false if it was stored before. */
  stored: boolean[]
  /** How many duplicates differ in a byte from what is stored. A tombstone never differs, on either side. */
  conflicts: number
  /** The builds that this append froze. */
  frozen: readonly string[]
}

export interface StoredEvent {
  /** Made by `eventCursors` from the position and checksum of the event. Stays valid when the event is erased. */
  cursor: Cursor
  /** Never decreases along the log. */
  receivedAt: number
  /** The bytes of the event exactly as it was sent; empty for a tombstone. */
  bytes: Uint8Array
  /** The id, for a tombstone only. */
  erased?: string
}

/** Default: all events. */
export interface EventRange {
  after?: Cursor | undefined
  /** Only events received at this time or later; earlier ones are not scanned. */
  from?: number | undefined
}

export interface ReadOptions extends EventRange {
  /** Default: all. */
  limit?: number
  /** Whether to read tombstones too. Default: false. */
  erased?: boolean
  /** Reading rejects with its reason soon after it aborts, even while no event is found. */
  signal?: AbortSignal | undefined
}

/** `events` and `batches` include tombstones; `bytes` is the size of the events, 0 once all are erased. */
export interface Totals {
  events: number
  batches: number
  bytes: number
  /** When the first and the last batch were received; undefined without events. */
  firstAt?: number
  lastAt?: number
  /** The cursor of the last event; without events, a cursor before all of them. */
  lastCursor: Cursor
}

export interface EventCount {
  events: number
  /** Batches that were not counted, each with at least one event. */
  batchesLeft: number
  /** When the first event of the range was received, counted or not. */
  firstAt?: number
}

/** `events`: those that this step erased; `bytes`: the decrease of {@link Totals.bytes}. */
export interface ExpiryStep {
  events: number
  bytes: number
  isDone: boolean
}

/** A reason to distrust the clock. If it may be ahead, events may seem older than they are. */
export interface ClockDoubt {
  message: string
  mayBeAhead: boolean
}

/**
 * Appends, updates and erasures that were committed together, and the time from the start of the commit until it was
 * durable.
 */
export interface StoreCommit {
  requests: number
  durationMs: number
}

/** `sha256:` and 64 lower-case hex digits, over the bytes of a chunk or of a whole map. */
export type Digest = string

/** Identifies a map inside a project. */
export interface MapId {
  placeId: string
  buildId: string
}

/** Identifies a map. */
export interface MapKey extends MapId {
  projectId: string
}

/** A chunk of a map, identified by the SHA-256 of its bytes. */
export interface ChunkRef {
  digest: Digest
  /** In bytes, 1 to 1,048,576. */
  size: number
}

/** The ordered list of the chunks that form a map. */
export interface Manifest {
  contentType: string
  /** The sum of the sizes of the chunks, in bytes. */
  size: number
  /** The digest of the concatenated bytes of all chunks. */
  digest: Digest
  chunks: readonly ChunkRef[]
}

/** The bytes of a chunk, 1 to 1,048,576 of them, and their digest. */
export interface ChunkUpload {
  digest: Digest
  bytes: Uint8Array
}

export interface MapContents {
  complete?: CompleteMap
  pending?: PendingManifest
}

export interface CompleteMap {
  manifest: Manifest
  publishedAt: number
}

/** `touchedAt`: when it was last published, or `putChunk` stored one of its missing chunks. */
export interface PendingManifest {
  manifest: Manifest
  touchedAt: number
}

/** `frozenAt`: when the first event of the build was stored; undefined while it is open. */
export interface UpdatedSlot extends MapContents {
  frozenAt?: number
}

/** A slot as it is read, without void maps. `missing`: the distinct chunks not stored yet, in the manifest's order. */
export interface MapSlot extends UpdatedSlot {
  pending?: PendingManifest & { missing: readonly Digest[] }
}

export interface MapDecision<T> {
  contents?: MapContents
  result: T
}

/** `digests`: `decide` receives those that are already stored. `uploads`: stored if the new contents name them. */
export interface MapChunks {
  digests?: readonly Digest[]
  uploads?: readonly ChunkUpload[]
}

/** Void maps count as maps until they are swept; `bytes` is the sum of `pendingBytesOf`. */
export interface PendingTotals {
  maps: number
  bytes: number
}

export interface MapSelection {
  placeId?: string | undefined
  buildId?: string | undefined
  after?: MapId | undefined
  limit: number
}

export interface MapEntry extends MapId {
  slot: MapSlot
}

export interface NewChunk extends ChunkUpload {
  receivedAt: number
}

/** `ready`: pending maps whose chunks are all stored, those with this chunk first; at most {@link readyMapsMax}. */
export interface PutChunkOutcome {
  outcome: 'stored' | 'existing' | 'undeclared'
  ready: readonly MapId[]
}

export const readyMapsMax = 16

/** `search`: only builds whose id contains it, after {@link foldBuildId} of both. */
export interface BuildSelection {
  search?: string | undefined
  after?: BuildPosition | undefined
  limit: number
}

/** `frozenAt` is undefined while the build is open. */
export interface BuildPosition {
  buildId: string
  frozenAt?: number
}

/** `last`, the last build examined, is set if there are fewer than `limit` builds although more may follow. */
export interface FoundBuilds {
  builds: BuildEntry[]
  last?: BuildPosition
}

export interface BuildEntry extends BuildPosition {
  /** Complete or pending maps. */
  maps: number
}

export const buildsSearchedMax = 10_000

/** Folds a build id for searches: A to Z become a to z. */
export function foldBuildId(buildId: string): string {
  return buildId.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

/** All scopes of keys. */
export const scopes = ['events:write', 'maps:write', 'read', 'consume'] as const

/** The permission of a key. `consume` moves and deletes consumers; it does not include `read`. */
export type Scope = (typeof scopes)[number]

/** A stored key, without the key itself. Times are milliseconds since 1970. */
export interface KeyRecord {
  /** The 8 characters after `ik_`: not secret, and used in logs and commands. */
  keyId: string
  /** For people: who has the key. */
  name?: string
  /** SHA-256 of the whole key, in hex. */
  hash: string
  scopes: readonly Scope[]
  createdAt: number
  expiresAt?: number
  revokedAt?: number
  /** When the key was last used, to within an hour. */
  lastUsedAt?: number
}

/** A tenant, without its events and maps. */
export interface Project {
  projectId: string
  /** Milliseconds since 1970. */
  createdAt: number
  keys: readonly KeyRecord[]
}

export interface Entries {
  project: Project
  consumers: readonly ConsumerRecord[]
}

export type EntryKind = keyof Entries

/** The position of a reader: the cursor of the last event that it has read, and when this position was stored. */
export interface ConsumerRecord {
  name: string
  cursor: Cursor
  updatedAt: number
}

export interface EntryDecision<Kind extends EntryKind, T> {
  entry?: Entries[Kind] | null
  result: T
}

/** `at`: when the span began; `writer`: 16 hexadecimal digits; `body`: JSON, {@link activityBodyBytesMax} at most. */
export interface ActivityRow {
  at: number
  writer: string
  body: string
}

export interface ActivityToPut extends ActivityRow {
  projectId: string
  span: ActivitySpan
}

/** A kind of rows: the outcomes of a minute or an hour, or its rejected events by cause, which take more bytes. */
export type ActivitySpan = 'minute' | 'hour' | `rejected-${'minute' | 'hour'}`

/** `from <= at < to` */
export interface ActivityRange {
  span: ActivitySpan
  from: number
  to: number
}

export const activityRowsMax = 256
export const activityBodyBytesMax = 65_536

/** One metric of a store, as Prometheus names it: `ingest_store_…`, in seconds or bytes. */
export interface StoreMetric {
  name: string
  help: string
  type: 'counter' | 'gauge'
  values: readonly { labels?: Readonly<Record<string, string>>; value: number }[]
}

/** A gauge with one value, or with one for each set of labels. */
export function storeGauge(name: string, help: string, value: number | StoreMetric['values']): StoreMetric {
  const values = typeof value === 'number' ? [{ value }] : value
  return { name: `ingest_store_${name}`, help, type: 'gauge', values }
}
