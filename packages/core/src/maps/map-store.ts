import type { ChunkUpload, Digest, Manifest, MapId, MapKey } from './map.ts'

/** A readable map: all of its chunks are stored and match its manifest. */
export interface CompleteMap {
  manifest: Manifest
  /** Milliseconds since 1970. */
  publishedAt: number
}

/** A manifest whose chunks are being uploaded. */
export interface PendingManifest {
  manifest: Manifest
  /** When it was last published, or `putChunk` stored one of its missing chunks: milliseconds since 1970. */
  touchedAt: number
}

/** A pending manifest as it is stored. */
export interface PendingMap extends PendingManifest {
  /** The distinct chunks that are not stored yet, in the order of the manifest. */
  missing: readonly Digest[]
}

/** The contents of a slot: the maps published for one place of one build. */
export interface MapContents {
  complete?: CompleteMap
  /** Becomes the complete map once its chunks are stored and verified. */
  pending?: PendingManifest
}

/** A stored slot: one place of one build. */
export interface MapSlot extends UpdatedSlot {
  pending?: PendingMap
}

/** The slot as `updateMap` passes it to `decide`. */
export interface UpdatedSlot extends MapContents {
  /**
   * When the first event that references the build was stored, in milliseconds since 1970; undefined while it is open.
   */
  frozenAt?: number
}

/**
 * The result of `decide` in `updateMap`: `contents`, if present, replaces the whole slot, and without maps removes it;
 * `result` is returned to the caller.
 */
export interface MapDecision<T> {
  contents?: MapContents
  result: T
}

/** The chunks that an update of a map involves. */
export interface MapChunks {
  /** Digests whose presence `decide` needs, as it is before the uploads. */
  digests?: readonly Digest[]
  /** Chunks to store in the same step, if the new contents name them. No digest occurs twice. */
  uploads?: readonly ChunkUpload[]
}

/** Totals of the unfinished uploads of a project. */
export interface PendingTotals {
  /** Pending maps, including void ones that were not swept yet. */
  maps: number
  /** The sum of `pendingBytesOf` over all maps: what the uploads hold when they are complete. */
  bytes: number
}

/** Selects maps of a project. */
export interface MapSelection {
  placeId?: string | undefined
  buildId?: string | undefined
  /** Only maps after this one. */
  after?: MapId | undefined
  /** At most this many. */
  limit: number
}

/** A map in a list of a store. */
export interface MapEntry extends MapId {
  slot: MapSlot
}

/** A chunk whose digest was computed. */
export interface NewChunk extends ChunkUpload {
  /** Milliseconds since 1970. */
  receivedAt: number
}

/** The result of storing a chunk. */
export interface PutChunkOutcome {
  /**
   * `existing`: it was stored before. `undeclared`: it was not, and no map of the project names it, or all give a
   * smaller size.
   */
  outcome: 'stored' | 'existing' | 'undeclared'
  /**
   * At most {@link readyMapsMax} pending maps of the project whose chunks are all stored; maps that name this chunk
   * come first. Empty for `undeclared`.
   */
  ready: readonly MapId[]
}

/** Maximum number of ready maps that one chunk reports: any number of manifests may name it. */
export const readyMapsMax = 16

/** Selects builds of a project. */
export interface BuildSelection {
  /** Only builds whose id contains this, after {@link foldBuildId} of both. */
  search?: string | undefined
  /** Only builds after this position, whether or not a build is at it. */
  after?: BuildPosition | undefined
  /** At most this many. */
  limit: number
}

/** The position of a build in the list. */
export interface BuildPosition {
  buildId: string
  /** Undefined while the build is open. */
  frozenAt?: number
}

/** The result of `builds`. */
export interface FoundBuilds {
  builds: BuildEntry[]
  /** Set if the page has fewer builds than `limit` although more may follow: the last build examined. */
  last?: BuildPosition
}

/** Maximum number of builds that one call of `builds` examines. */
export const buildsSearchedMax = 10_000

/** Folds a build id for searches: A to Z become a to z. */
export function foldBuildId(buildId: string): string {
  return buildId.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

/** A build that is frozen or has maps. */
export interface BuildEntry {
  buildId: string
  /** When the first event that references it was stored, in milliseconds since 1970; undefined while it is open. */
  frozenAt?: number
  /** The number of complete or pending maps. */
  maps: number
}

/** The part of a store that keeps maps and their chunks; {@link Store} says what holds for all of its operations. */
export interface MapStore {
  map(key: MapKey): Promise<MapSlot>
  /** The maps of a project, complete or pending, by build and then by place, in the order of their UTF-8. */
  maps(projectId: string, selection: MapSelection): Promise<MapEntry[]>
  /**
   * The builds of a project: open ones, then the newest freeze first, ties in descending order of their UTF-8. Reads an
   * index, so that the cost grows with `limit` and, for a search, with the number of builds examined.
   */
  builds(projectId: string, selection: BuildSelection): Promise<FoundBuilds>
  /**
   * Reads, decides and writes a map atomically, serialized with all appends, across all processes. `decide` is pure: it
   * receives the slot and the `chunks.digests` that the project has, and is called again after a lost race. If it
   * throws, `updateMap` rejects with the same error and nothing is written. A decision without contents costs only a
   * read.
   *
   * A project has a chunk while one of its maps names it: the update that removes the last name removes the chunk. Only
   * the chunks of pending maps that a freeze made void may be found until {@link sweepMaps}.
   */
  updateMap<T>(
    key: MapKey,
    chunks: MapChunks,
    decide: (slot: UpdatedSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
  ): Promise<T>
  /** Stores a chunk that a map of the project names, complete or pending. */
  putChunk(projectId: string, chunk: NewChunk): Promise<PutChunkOutcome>
  /**
   * The bytes of a chunk of this project; they belong to the caller and must not be changed.
   *
   * @throws {IngestError} `store-damaged` for bytes that do not have this digest
   */
  readChunk(projectId: string, digest: Digest): Promise<Uint8Array | undefined>
  /**
   * Deletes unused data of the maps of all projects: pending maps that are expired by `isExpired`, pending maps that a
   * freeze has made void, and chunks left by a crash. Works in short steps, between which other operations run.
   */
  sweepMaps(touchedBefore: number): Promise<void>
  /** Counted on each call: core lets a project have at most 1,000 pending maps. */
  pendingTotals(projectId: string): Promise<PendingTotals>
}
