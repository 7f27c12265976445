import { chunkBytesMax } from '@ingest/core'

/** The most chunks in flight whose memory is kept for reuse. */
const keptMax = 16
/** Memory of smaller chunks is not kept, and has exactly their size: the kernel may back a buffer with huge pages. */
const keptBytesMin = 65_536

/**
 * Memory shared by threads, for chunks in flight. It is reused, because V8 counts allocated buffers when it schedules
 * garbage collections, even those outside its heap.
 */
export interface SharedMemory {
  copy(bytes: Uint8Array): Uint8Array
  /** Must be called when no thread reads the copy any more. */
  release(copy: Uint8Array): void
}

export function createSharedMemory(): SharedMemory {
  const free: SharedArrayBuffer[] = []
  return {
    copy(bytes) {
      const isKept = bytes.length >= keptBytesMin && bytes.length <= chunkBytesMax
      const kept = isKept ? free.pop() : undefined
      const buffer = kept ?? new SharedArrayBuffer(isKept ? chunkBytesMax : bytes.length)
      const copy = new Uint8Array(buffer, 0, bytes.length)
      copy.set(bytes)
      return copy
    },
    release({ buffer }) {
      if (free.length < keptMax && buffer.byteLength === chunkBytesMax) free.push(buffer as SharedArrayBuffer)
    },
  }
}
