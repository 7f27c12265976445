import { randomFillSync } from 'node:crypto'

const counterMax = 0xfff
/** The counter starts in the lower half of its range, so that it does not overflow at once. */
const counterStartMax = 0x7ff

/**
 * Generates event ids: UUIDs of version 7 (RFC 9562 section 5.7), which sort in the order of their creation. Within a
 * millisecond, and while the clock is behind the last id, the 12 bits of `rand_a` count up from a random start (section
 * 6.2, method 1); when they overflow, the time of the ids runs a millisecond ahead of the clock.
 */
export function createEventIds(now: () => number = Date.now): () => string {
  let time = -1
  let counter = 0
  return () => {
    const bytes = randomFillSync(Buffer.allocUnsafe(16))
    const clock = Math.floor(now())
    if (clock > time || ++counter > counterMax) {
      time = Math.max(clock, time + 1)
      counter = bytes.readUInt16BE(6) & counterStartMax
    }
    bytes.writeUIntBE(time, 0, 6)
    bytes.writeUInt16BE(0x7000 | counter, 6)
    bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
    const hex = bytes.toString('hex')
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
  }
}
