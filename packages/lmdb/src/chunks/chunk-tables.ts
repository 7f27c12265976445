import type { Digest } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { decodeStored, digestBytes, encodeStored } from './chunk-encoding.ts'

/** The key of a blob, the bytes of one upload of a chunk: project, digest, and random bytes of the upload. */
export type BlobKey = Buffer

/** A chunk whose blob is durable. */
export interface WrittenChunk {
  blobKey: BlobKey
  /** In bytes. */
  size: number
}

/** Which chunks are stored, and which manifests name them. Projects and manifests are identified by number. */
export interface ChunkTables {
  find(project: number, digest: Digest): WrittenChunk | undefined
  /** The blob of a stored chunk. */
  blobKeyOf(project: number, digest: Digest): BlobKey | undefined
  isStored(project: number, digest: Digest): boolean
  /** For each of these digests, encoded by {@link encodeDigests}, 1 if the chunk is stored, else 0. */
  areStored(project: number, digests: Buffer): Buffer
  /** Whether a manifest names a chunk. */
  isReferenced(project: number, digest: Digest): boolean
  /** The manifests that name a chunk, each with the size that it gives. */
  references(project: number, digest: Digest): Iterable<{ number: number; size: number }>
  /** The manifests that name a chunk, the newest first. */
  newestReferences(project: number, digest: Digest, limit: number): number[]

  // only inside a write transaction
  addReference(project: number, number: number, digest: Digest, size: number): void
  /** Deletes a chunk, and marks its blob as garbage, when no other manifest names it. */
  removeReference(project: number, number: number, digest: Digest): void
  put(project: number, digest: Digest, chunk: WrittenChunk): void

  /** Blobs that no chunk needs, and that must not be named again. */
  garbage(limit: number): BlobKey[]
  isGarbage(blobKey: BlobKey): boolean
  /** How often garbage was collected: a blob that existed at one count may be deleted at another. */
  collections(): number
  /** Whether a stored chunk uses the blob. */
  isUsed(blobKey: BlobKey): boolean
  markGarbage(blobKey: BlobKey): void
  /** The blob at which the next check for unused blobs begins. */
  orphansFrom(): Buffer
  /** Undefined for the first blob. Only inside a write transaction. */
  saveOrphansFrom(from: Buffer | undefined): void
  /** Removes the marks of deleted blobs. */
  collectGarbage(blobKeys: readonly BlobKey[]): void
}

/** The commands of the writer for chunks. */
export interface ChunkCommands {
  /** Records where the check for unused blobs continues; undefined once all are checked. */
  saveOrphansFrom: { command: { type: 'saveOrphansFrom'; from: Uint8Array | undefined }; result: true }
  /** Marks blobs that no chunk uses as garbage. */
  markGarbage: { command: { type: 'markGarbage'; blobKeys: readonly Uint8Array[] }; result: true }
  /** Removes the marks of deleted blobs. */
  collectGarbage: { command: { type: 'collectGarbage'; blobKeys: readonly Uint8Array[] }; result: true }
}

/** The random bytes of an upload, at the end of its blob key. */
export const uploadBytes = 8
const nothing = Buffer.alloc(0)
const collectionsKey = Buffer.from('count')
const orphansKey = Buffer.from('orphans')
/** After every manifest number. */
const above = Buffer.alloc(9, 0xff)

/** @param onGarbage called when a blob is marked as garbage */
export function openChunkTables(table: (name: TableName) => Rows, onGarbage = () => {}): ChunkTables {
  const chunks = table('chunks')
  const references = table('chunk-references')
  const garbage = table('chunk-garbage')
  const collections = table('chunk-collections')

  function find(project: number, digest: Digest): WrittenChunk | undefined {
    const key = chunkKey(project, digest)
    const row = chunks.getBinary(key)
    if (!row) return undefined
    const { upload, size } = decodeStored(row)
    return { blobKey: Buffer.concat([key, upload]), size }
  }

  function isReferenced(project: number, digest: Digest): boolean {
    return manifestsIn(references, project, digest, 1).length > 0
  }

  function markGarbage(blobKey: BlobKey): void {
    garbage.put(blobKey, nothing)
    onGarbage()
  }

  function collectionCount(): number {
    return collections.getBinary(collectionsKey)?.readDoubleLE() ?? 0
  }

  return {
    find,
    blobKeyOf: (project, digest) => find(project, digest)?.blobKey,
    isStored: (project, digest) => chunks.doesExist(chunkKey(project, digest)),
    areStored(project, digests) {
      const key = projectKey(project, Buffer.alloc(digestBytes))
      const keyOffset = key.length - digestBytes
      const stored = Buffer.alloc(digests.length / digestBytes)
      for (let i = 0; i < stored.length; i++) {
        digests.copy(key, keyOffset, i * digestBytes, (i + 1) * digestBytes)
        stored[i] = Number(chunks.doesExist(key))
      }
      return stored
    },

    isReferenced,

    *references(project, digest) {
      const start = chunkKey(project, digest)
      for (const key of references.getKeys({ start, end: Buffer.concat([start, above]) })) {
        yield { number: readSequence(key), size: references.getBinary(key)?.readUInt32LE() ?? 0 }
      }
    },

    newestReferences(project, digest, limit) {
      const end = chunkKey(project, digest)
      const start = Buffer.concat([end, above])
      return Array.from(references.getKeys({ start, end, limit, reverse: true }), readSequence)
    },

    addReference(project, number, digest, size) {
      const value = Buffer.alloc(4)
      value.writeUInt32LE(size)
      references.put(chunkKey(project, digest, number), value)
    },

    removeReference(project, number, digest) {
      references.remove(chunkKey(project, digest, number))
      if (isReferenced(project, digest)) return
      const blobKey = find(project, digest)?.blobKey
      if (!blobKey) return
      chunks.remove(chunkKey(project, digest))
      markGarbage(blobKey)
    },

    put(project, digest, { blobKey, size }) {
      chunks.put(chunkKey(project, digest), encodeStored({ upload: blobKey.subarray(-uploadBytes), size }))
    },

    garbage: (limit) => Array.from(garbage.getKeys({ limit }), (key) => Buffer.from(key)),
    isGarbage: (blobKey) => garbage.doesExist(blobKey),
    collections: collectionCount,

    isUsed(blobKey) {
      const stored = chunks.getBinary(blobKey.subarray(0, -uploadBytes))
      return stored !== undefined && decodeStored(stored).upload.equals(blobKey.subarray(-uploadBytes))
    },

    markGarbage,

    orphansFrom: () => Buffer.from(collections.getBinary(orphansKey) ?? ''),

    saveOrphansFrom(from) {
      if (from) collections.put(orphansKey, from)
      else collections.remove(orphansKey)
    },

    collectGarbage(blobKeys) {
      for (const blobKey of blobKeys) garbage.remove(blobKey)
      const count = Buffer.alloc(8)
      count.writeDoubleLE(collectionCount() + 1)
      collections.put(collectionsKey, count)
    },
  }
}

/** The key of a chunk; with the number of a manifest, the key of the reference from that manifest. */
export function chunkKey(project: number, digest: Digest, number?: number): Buffer {
  const hash = Buffer.from(digest.slice('sha256:'.length), 'hex')
  return projectKey(project, number === undefined ? hash : Buffer.concat([hash, sequenceKey(number)]))
}

/** The first manifest numbers in a table of project, digest and number. */
export function manifestsIn(rows: Rows, project: number, digest: Digest, limit: number): number[] {
  const start = chunkKey(project, digest)
  return Array.from(rows.getKeys({ start, end: Buffer.concat([start, above]), limit }), readSequence)
}
