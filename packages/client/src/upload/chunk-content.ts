import { createHash } from 'node:crypto'

/** Minimum size of a chunk, in bytes; the last one of a map may be smaller. */
export const chunkBytesMin = 64 * 1024
/** Maximum size of a chunk, in bytes. */
export const chunkBytesMax = 1024 * 1024
/**
 * Below this size, a boundary is 16 times rarer than above it. Chosen for an average chunk of 256 KiB on random bytes.
 */
const chunkBytesNormal = 208 * 1024

/** A boundary's hash has 20 leading zero bits below the normal size, and 16 above it. */
const strictShift = 32 - 20
const easyShift = 32 - 16

/** Number of bytes that the hash depends on: older bytes are shifted out. */
const hashedBytes = 32

const gear = makeGear()

/**
 * The end of the chunk that starts at `start`. It depends on the bytes of the chunk alone, provided that `bytes` has 1
 * MiB from `start`, or the rest of the map.
 *
 * Chunks are content-defined: an insertion or removal moves only nearby boundaries. The hash is Gear (Xia et al.,
 * "Ddelta", Performance Evaluation 79, 2014) over the 32 bytes before the boundary; skipping the minimum size and using
 * two boundary rates is from FastCDC (Xia et al., USENIX ATC 2016). The algorithm must never change: with other
 * boundaries every map would be uploaded in full again.
 */
export function chunkEnd(bytes: Uint8Array, start: number): number {
  const end = Math.min(bytes.length, start + chunkBytesMax)
  const normal = Math.min(end, start + chunkBytesNormal)
  const least = Math.min(end, start + chunkBytesMin)
  const boundary = boundaryIn(bytes, least, least, normal, strictShift)
  if (boundary !== undefined || normal === end) return boundary ?? end
  return boundaryIn(bytes, normal - hashedBytes + 1, normal, end, easyShift) ?? end
}

/** The first boundary after `start`, up to `end`; the hash starts at `first`. */
function boundaryIn(bytes: Uint8Array, first: number, start: number, end: number, shift: number): number | undefined {
  // local copies: with module variables, the loop takes a third longer
  const gears = gear
  const mask = -1 << shift
  let hash = 0
  let at = first
  while (at < start) hash = roll(gears, hash, bytes, at++)
  // unrolled four times, which halves its time
  for (; at + 4 <= end; at += 4) {
    const one = roll(gears, hash, bytes, at)
    const two = roll(gears, one, bytes, at + 1)
    const three = roll(gears, two, bytes, at + 2)
    hash = roll(gears, three, bytes, at + 3)
    if ((one & mask) === 0) return at + 1
    if ((two & mask) === 0) return at + 2
    if ((three & mask) === 0) return at + 3
    if ((hash & mask) === 0) return at + 4
  }
  while (at < end) {
    hash = roll(gears, hash, bytes, at++)
    if ((hash & mask) === 0) return at
  }
  return undefined
}

function roll(gears: Int32Array, hash: number, bytes: Uint8Array, at: number): number {
  return ((hash << 1) + (gears[bytes[at] as number] as number)) | 0
}

/** For each byte value, the first four bytes of the SHA-256 of `ingest gear <value>`, big-endian. */
function makeGear(): Int32Array {
  return Int32Array.from({ length: 256 }, (_, value) =>
    createHash('sha256').update(`ingest gear ${value}`).digest().readInt32BE(0),
  )
}

/** Copies bytes from `position` to the start of `target` and resolves with their number; 0 only at the end. */
export type ReadAt = (target: Uint8Array, position: number) => Promise<number>

/** Size of the read buffer. Its unread rest, at most one chunk, is moved to the start before the next read. */
const windowBytes = 4 * chunkBytesMax

/** Yields the chunks that `readAt` reads, in order. Each is valid until the next one is requested. */
export async function* chunkContent(readAt: ReadAt): AsyncGenerator<Uint8Array, void> {
  const window = new Uint8Array(windowBytes)
  let position = 0
  let filled = 0
  for (;;) {
    let isEnd = false
    while (filled < windowBytes && !isEnd) {
      const count = await readAt(window.subarray(filled), position)
      isEnd = count === 0
      filled += count
      position += count
    }
    const bytes = window.subarray(0, filled)
    let start = 0
    while (start < filled && (isEnd || filled - start >= chunkBytesMax)) {
      const end = chunkEnd(bytes, start)
      yield bytes.subarray(start, end)
      start = end
    }
    if (isEnd) return
    window.copyWithin(0, start, filled)
    filled -= start
  }
}
