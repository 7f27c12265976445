import type { ChunkRef, ChunkUpload, Digest, Manifest, MapId, MapKey } from './map.ts'

/** A map that can be read: all of its chunks are stored, and match its manifest. */
export interface CompleteMap {
  manifest: Manifest
  /** Milliseconds since 1970. */
  publishedAt: number
}

/** A manifest whose chunks are being uploaded. */
export interface PendingManifest {
  manifest: Manifest
  /** When it was last published, or one of its missing chunks was stored: milliseconds since 1970. */
  touchedAt: number
}

/** A pending manifest as it is stored. */
export interface PendingMap extends PendingManifest {
  /** The distinct chunks that are not stored yet, in the order of the manifest. */
  missing: readonly Digest[]
}

/** What is published for one place of one build. */
export interface MapContents {
  complete?: CompleteMap
  /** Becomes the complete map once its chunks are stored and verified. */
  pending?: PendingManifest
}

/** What a store has of one map. */
export interface MapSlot extends UpdatedSlot {
  pending?: PendingMap
}

/** What `updateMap` shows of a slot. */
export interface UpdatedSlot extends MapContents {
  /** When the first event that references the build was stored, in milliseconds since 1970; undefined while it is open. */
  frozenAt?: number
}

/** What `updateMap` writes: `contents`, if present, replaces all of the slot; `result` is returned to the caller. */
export interface MapDecision<T> {
  contents?: MapContents
  result: T
}

/** The chunks that an update of a map is about. */
export interface MapChunks {
  /** Digests whose presence `decide` needs. */
  digests?: readonly Digest[]
  /** Chunks to store in the same step, if the new contents name them. No digest twice. */
  uploads?: readonly ChunkUpload[]
}

/** What the unfinished uploads of a project come to. */
export interface PendingTotals {
  /** Pending maps, with void ones that were not swept yet. */
  maps: number
  /** The sum of `pendingBytesOf` of all maps: what the uploads may come to hold. */
  bytes: number
}

export interface MapSelection {
  placeId?: string | undefined
  buildId?: string | undefined
  /** Only maps after this one. */
  after?: MapId | undefined
  /** At most this many. */
  limit: number
}

export interface MapEntry extends MapId {
  slot: MapSlot
}

/** A chunk whose digest was computed. */
export interface NewChunk extends ChunkUpload {
  /** Milliseconds since 1970. */
  receivedAt: number
}

export interface PutChunkOutcome {
  /** `undeclared` when no map of the project names the chunk, or each with a smaller size. */
  outcome: 'stored' | 'existing' | 'undeclared'
  /** Pending maps of the project that miss no chunk, at most 16: those that name the chunk first. */
  ready: readonly MapId[]
}

/** The most maps that one chunk is reported to make ready: any number of manifests may name it. */
export const readyMapsMax = 16

/** The digest of chunks together, or the size of the stored chunk at `index`, which differs from the one given. */
export type HashedChunks = { digest: Digest } | { index: number; size: number }

export interface BuildSelection {
  /** Only builds after this one. */
  after?: string | undefined
  /** At most this many. */
  limit: number
}

export interface NewestBuildSelection {
  /** Only builds whose id contains this, with A to Z as a to z: {@link foldBuildId}. */
  search?: string | undefined
  /** Only builds after this one. */
  after?: BuildPosition | undefined
  /** At most this many. */
  limit: number
}

/** Where a build is in the order of the newest. */
export interface BuildPosition {
  buildId: string
  /** Undefined while the build is open. */
  frozenAt?: number
}

export interface NewestBuilds {
  builds: BuildEntry[]
  /** Of fewer builds than `limit`: the last one that was looked at, if more may follow. */
  last?: BuildPosition
}

/** The most builds that one call of `newestBuilds` looks at. */
export const buildsSearchedMax = 10_000

/** How searches compare the ids of builds: A to Z as a to z. */
export function foldBuildId(buildId: string): string {
  return buildId.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

/** One build that is frozen, or has maps, or both. */
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
  /** The builds of a project, in the order of their UTF-8. */
  builds(projectId: string, selection: BuildSelection): Promise<BuildEntry[]>
  /**
   * The same builds: open ones, then the newest freeze first; those of one time in descending order of their UTF-8. Reads
   * an index, so that the cost grows with `limit`, and with a search with the builds that it looks at.
   */
  newestBuilds(projectId: string, selection: NewestBuildSelection): Promise<NewestBuilds>
  /**
   * Reads, decides and writes a map atomically, serialized with all appends, across all processes. `decide` is pure:
   * it receives the slot and those of `chunks.digests` that the project has, and is called again after a lost race. If
   * it throws, `updateMap` rejects with the same error and nothing is written. A decision without contents costs a read.
   *
   * Chunks that the new contents name are kept as long as they do; chunks that no map of the project names any more are
   * deleted, at the latest by {@link sweepMaps}.
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
   * Hashes chunks one after another, outside of the event loop. Resolves to their digest; to the first chunk that has
   * another size than given; or to undefined if a chunk is not stored. Rejects with the reason of an aborted signal.
   * A store without it is read chunk by chunk.
   */
  hashChunks?(projectId: string, chunks: readonly ChunkRef[], signal: AbortSignal): Promise<HashedChunks | undefined>
  /**
   * Drops what the maps of all projects need no more: pending maps that are expired by `isExpired`, those that a freeze
   * has made void, and what a crash has left of chunks. In short steps, between which other operations run.
   */
  sweepMaps(touchedBefore: number): Promise<void>
  /** Counted when it is called, from rows whose number `pendingMapsMax` limits. */
  pendingTotals(projectId: string): Promise<PendingTotals>
}
