import { chunkBytesMax } from '@ingest/core'

/** Memory for chunks that changes hands, and comes back. */
export interface MemoryPool {
  /** So many bytes, whatever is in them, of a buffer at most twice as large. */
  take(bytes: number): Uint8Array<ArrayBuffer>
  /** What nobody looks at any more. */
  giveBack(buffers: readonly ArrayBuffer[]): void
}

/** Less is not worth keeping. */
const keptBytesMin = 65_536
/** So many buffers are kept while nobody uses them. */
const keptMax = 16

/** Memory that is used again: to make it anew for each chunk keeps the garbage collector busy, which everybody feels. */
export function createMemoryPool(): MemoryPool {
  const kept: ArrayBuffer[] = []
  return {
    take(bytes) {
      if (bytes < keptBytesMin || bytes > chunkBytesMax) return new Uint8Array(bytes)
      const size = 2 ** Math.ceil(Math.log2(bytes))
      const at = kept.findIndex(({ byteLength }) => byteLength === size)
      const [buffer = new ArrayBuffer(size)] = at < 0 ? [] : kept.splice(at, 1)
      return new Uint8Array(buffer, 0, bytes)
    },
    giveBack(buffers) {
      kept.unshift(...buffers.filter(({ byteLength }) => byteLength >= keptBytesMin && byteLength <= chunkBytesMax))
      kept.splice(keptMax)
    },
  }
}
