import { createHash } from 'node:crypto'

/** No chunk is smaller, but the last one of a map. */
export const chunkBytesMin = 64 * 1024
/** No chunk is larger. */
export const chunkBytesMax = 1024 * 1024
/** Up to this size a boundary is 16 times as rare as above it; so chosen that 256 KiB is the average of random bytes. */
const chunkBytesNormal = 208 * 1024

/** How many of the first bits of the hash are zero at a boundary: one place in 2^20, and then one in 2^16. */
const strictShift = 32 - 20
const easyShift = 32 - 16

/** What is further behind has been shifted out of the hash. */
const hashedBytes = 32

const gear = makeGear()

/**
 * Where the chunk that begins at `start` ends. The answer depends on the bytes of the chunk alone, provided that
 * `bytes` holds 1 MiB from `start`, or all there is.
 *
 * Content-defined: bytes that are inserted or removed move no boundary but those near them. The hash is Gear (Xia et
 * al., "Ddelta", Performance Evaluation 79, 2014), of the 32 bytes before the boundary; skipping the least size and
 * the two rates of boundaries are FastCDC (Xia et al., USENIX ATC 2016). None of this may ever change, or every map
 * would be uploaded anew.
 */
export function chunkEnd(bytes: Uint8Array, start: number): number {
  const end = Math.min(bytes.length, start + chunkBytesMax)
  const normal = Math.min(end, start + chunkBytesNormal)
  const least = Math.min(end, start + chunkBytesMin)
  const boundary = boundaryIn(bytes, least, least, normal, strictShift)
  if (boundary !== undefined || normal === end) return boundary ?? end
  return boundaryIn(bytes, normal - hashedBytes + 1, normal, end, easyShift) ?? end
}

/** The first boundary behind `start` and up to `end`, by the hash of what is from `first` on. */
function boundaryIn(bytes: Uint8Array, first: number, start: number, end: number, shift: number): number | undefined {
  let hash = 0
  let at = first
  while (at < start) hash = roll(hash, bytes, at++)
  // four bytes a turn take half of the time
  for (; at + 4 <= end; at += 4) {
    const one = roll(hash, bytes, at)
    const two = roll(one, bytes, at + 1)
    const three = roll(two, bytes, at + 2)
    hash = roll(three, bytes, at + 3)
    if (one >>> shift === 0) return at + 1
    if (two >>> shift === 0) return at + 2
    if (three >>> shift === 0) return at + 3
    if (hash >>> shift === 0) return at + 4
  }
  while (at < end) {
    hash = roll(hash, bytes, at++)
    if (hash >>> shift === 0) return at
  }
  return undefined
}

function roll(hash: number, bytes: Uint8Array, at: number): number {
  return ((hash << 1) + (gear[bytes[at] as number] as number)) | 0
}

/** For each byte value, the first four bytes of the SHA-256 of `ingest gear <value>`, big-endian. */
function makeGear(): Int32Array {
  return Int32Array.from({ length: 256 }, (_, value) =>
    createHash('sha256').update(`ingest gear ${value}`).digest().readInt32BE(0),
  )
}

/** The chunks of what is in memory, in order: views of it. */
export function* cutBytes(bytes: Uint8Array): Generator<Uint8Array, void> {
  for (let start = 0; start < bytes.length; ) {
    const end = chunkEnd(bytes, start)
    yield bytes.subarray(start, end)
    start = end
  }
}

/** Fills the start of `target` with the bytes from `position` on, and answers how many; 0 at the end alone. */
export type ReadAt = (target: Uint8Array, position: number) => Promise<number>

/** How much is read ahead: what is left of it at its end is copied, at most a chunk. */
const windowBytes = 4 * chunkBytesMax

/** The chunks of what `readAt` reads, in order. Each is valid until the next one is asked for. */
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
