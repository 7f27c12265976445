import type { Digest, Manifest } from '@ingest/core'
import { chunkRefBytes, decodeChunks, encodeChunks } from '../chunks/chunk-encoding.ts'
import type { ChunkTables } from '../chunks/chunk-tables.ts'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import type { PendingTables } from './pending-manifests.ts'

/** Adds and deletes manifests. Only inside a write transaction. */
export interface ManifestTables {
  /** Stores a manifest and its references. Returns its number. */
  add(project: number, manifest: Manifest): number
  /** Marks a manifest that no map names any more; {@link release} deletes it. */
  detach(project: number, number: number): void
  /**
   * Deletes detached manifests, and those of their chunks that no other manifest names: a bounded number, as a
   * transaction must not take long. Returns whether some are left.
   */
  release(): boolean
}

const lastKey = Buffer.from('last')
/** The most chunks of detached manifests that one transaction looks at. */
const releasedMax = 512

export function openManifestTables(
  table: (name: TableName) => Rows,
  chunks: ChunkTables,
  pending: PendingTables,
): ManifestTables {
  const manifests = table('manifests')
  const detached = table('detached-manifests')
  const numbers = table('manifest-numbers')

  function setReleased(project: number, number: number, released: number): void {
    const value = Buffer.alloc(4)
    value.writeUInt32LE(released)
    detached.put(projectKey(project, sequenceKey(number)), value)
  }

  function firstDetached(): Buffer | undefined {
    const [key] = [...detached.getKeys({ limit: 1 })]
    return key && Buffer.from(key)
  }

  return {
    add(project, manifest) {
      const number = (numbers.getBinary(lastKey)?.readDoubleLE() ?? 0) + 1
      const last = Buffer.alloc(8)
      last.writeDoubleLE(number)
      numbers.put(lastKey, last)
      manifests.put(sequenceKey(number), encodeChunks(manifest.chunks))
      const sizes = new Map<Digest, number>()
      for (const { digest, size } of manifest.chunks) sizes.set(digest, Math.max(size, sizes.get(digest) ?? 0))
      for (const [digest, size] of sizes) chunks.addReference(project, number, digest, size)
      return number
    },

    detach: (project, number) => setReleased(project, number, 0),

    release() {
      for (let left = releasedMax; left > 0; ) {
        const key = firstDetached()
        if (!key) return false
        const [project, number] = [key.readUInt32BE(), readSequence(key)]
        const released = detached.getBinary(key)?.readUInt32LE() ?? 0
        const refs = manifests.getBinary(sequenceKey(number)) ?? Buffer.of()
        const part = refs.subarray(released * chunkRefBytes, (released + left) * chunkRefBytes)
        const digests = decodeChunks(part).map(({ digest }) => digest)
        pending.removeMissing(project, number, digests)
        for (const digest of digests) chunks.removeReference(project, number, digest)
        left -= digests.length
        if ((released + digests.length) * chunkRefBytes < refs.length)
          setReleased(project, number, released + digests.length)
        else {
          manifests.remove(sequenceKey(number))
          detached.remove(key)
        }
      }
      return firstDetached() !== undefined
    },
  }
}
