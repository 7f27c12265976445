import type { Issue } from '../error.ts'
import type { ChunkUpload, Digest, Manifest, MapId } from '../store-types.ts'

/** A full map (any JSON value, stored as its canonical bytes, RFC 8785) or a manifest. `placeId` may be an integer. */
export type Publication = { placeId: string | number; buildId: string } & ({ map: unknown } | { manifest: Manifest })

/** Options of map verification, which hashes all bytes of a map. */
export interface VerificationOptions {
  /**
   * Called with the number of bytes to hash before the chunks of a map are verified. May throw or reject, as a rate
   * limiter does: `publishMap` rejects with that error; after `putChunk` and `putChunks` the map stays pending.
   */
  admit?: (bytes: number) => void | Promise<void>
  /**
   * Cancels a verification: `publishMap` rejects with its reason; after `putChunk` and `putChunks` the map stays
   * pending.
   */
  signal?: AbortSignal
}

/** Options of `publishMap`. */
export interface PublishOptions extends VerificationOptions {
  /** Only if nothing is complete yet for this key; `precondition-failed` otherwise. */
  ifNoneMatch?: '*'
  /** Only if the complete map has this digest; `precondition-failed` otherwise. */
  ifMatch?: Digest
  /** Return the result without writing anything. */
  dryRun?: boolean
}

/**
 * The effect of a publication: `created`, the first complete map for its key; `replaced`, the complete map; `unchanged`;
 * or `incomplete`, a recorded manifest whose chunks are not all stored.
 */
export type PublishOutcome = 'created' | 'replaced' | 'unchanged' | 'incomplete'

/** The result of a publication. */
export interface PublishedMap extends MapId {
  outcome: PublishOutcome
  state: 'complete' | 'incomplete'
  digest: Digest
  size: number
  contentType: string
  /** The number of chunks. */
  chunks: number
  frozen: boolean
  /** The distinct digests to upload, in the order of the manifest. */
  missing: Digest[]
  /** When this map became complete, in milliseconds since 1970; null if it is incomplete. */
  publishedAt: number | null
  /** Why a manifest was dropped after its last chunk was stored: the chunks do not match its digest or sizes. */
  issues?: Issue[]
}

/** The status of a map: of the complete one, or else of the incomplete one. */
export interface MapStatus extends Omit<PublishedMap, 'outcome' | 'issues'> {
  /** When the build froze, in milliseconds since 1970; null while it is open. */
  frozenAt: number | null
  /** A manifest that replaces the complete map once its chunks are stored. */
  pending: { digest: Digest; size: number; contentType: string; chunks: number; missing: Digest[] } | null
}

/** Selects one page of the maps of a project. Default: all places and builds. */
export interface MapPageOptions {
  placeId?: string
  buildId?: string
  /** `next` of the previous page. */
  cursor?: string
  /** 1 to 1,000. Default: 100. */
  limit?: number
}

/** One page of the maps of a project. */
export interface MapPage {
  maps: MapStatus[]
  /** The cursor of the next page; null on the last. A page may be shorter than its limit. */
  next: string | null
}

/**
 * The result of `putChunks`: the numbers of chunks that were stored now and before, and the invalid chunks by index.
 */
export interface PutChunksResult {
  stored: number
  existing: number
  rejected: { index: number; digest: string | null; issues: Issue[] }[]
  /**
   * The maps that this call completed, and those that were dropped, with `issues`, because their chunks do not match.
   * To complete a map whose chunks are all stored and that is not in this list, publish its manifest again.
   */
  completed: PublishedMap[]
}

/** The result of `putChunk`. `existing`: the chunk was stored before. `completed`: as in `putChunks`. */
export interface PutChunkResult {
  outcome: 'stored' | 'existing'
  completed: PublishedMap[]
}

/** A readable complete map. */
export interface MapContent extends MapId {
  digest: Digest
  size: number
  contentType: string
  frozen: boolean
  /**
   * The bytes from `start` (inclusive) to `end` (exclusive). Default: all. Read chunk by chunk.
   *
   * @throws {IngestError} while reading: `map-replaced`, never for a frozen map, and `store-damaged`
   */
  bytes(start?: number, end?: number): AsyncIterable<Uint8Array>
}

/** The maps of game builds: published at once or chunk by chunk, frozen by the first event of their build. */
export interface Maps {
  /**
   * Publishes a map, or records a manifest and returns which of its chunks are missing. Retrying is always safe.
   *
   * A manifest whose chunks are all stored is verified first, one at a time per project. If it cannot be verified now,
   * it stays recorded.
   *
   * @throws {IngestError} `invalid-publication` (with `issues`), `map-frozen`, `precondition-failed`, `digest-mismatch`
   *   for a manifest that its stored chunks do not match, `map-quota-exceeded` (with `limit` and `actual`),
   *   `invalid-argument` for an invalid option, and the errors of `admit` and the store
   */
  publishMap(publication: Publication, options?: PublishOptions): Promise<PublishedMap>
  /**
   * Stores chunks that a manifest of the project names; the last chunk of a map completes it. Invalid chunks do not
   * fail the others. `bytes` must not change until this resolves.
   *
   * One call completes at most 16 maps, and starts no further verification after 64 MiB or while another verification
   * of the project is running.
   */
  putChunks(chunks: readonly ChunkUpload[], options?: VerificationOptions): Promise<PutChunksResult>
  /**
   * Stores one chunk, as `putChunks` does.
   *
   * @throws {IngestError} `chunk-undeclared`, `digest-mismatch`, `chunk-too-large`, `invalid-argument`
   */
  putChunk(digest: Digest, bytes: Uint8Array, options?: VerificationOptions): Promise<PutChunkResult>
  /** The status of a map; undefined if nothing is published for it. */
  getMap(id: MapId): Promise<MapStatus | undefined>
  /**
   * The maps of a project, complete or not, by build and then by place, in the order of their bytes.
   *
   * @throws {IngestError} `invalid-cursor`, `invalid-argument`
   */
  listMaps(options?: MapPageOptions): Promise<MapPage>
  /** The complete map; undefined if there is none. */
  getMapContent(id: MapId): Promise<MapContent | undefined>
  getChunk(digest: Digest): Promise<Uint8Array | undefined>
}
