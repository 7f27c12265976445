/** Two 32-bit halves of a 64-bit hash, in a typed array at `at` and `at + 1`: high, low. */
export type Fingerprint = (project: number, eventId: string, into: Uint32Array, at: number) => void

/**
 * The hash by which an event is found: 64 bits over the project and the UTF-16 code units of its id, with the secret
 * seed of the store, so that clients cannot craft colliding ids. A collision costs a read of the log, nothing
 * else.
 *
 * Two lanes of multiply and rotate with the constants and the final mix of MurmurHash3 (Appleby, public domain).
 */
export function createFingerprint(seed: Buffer): Fingerprint {
  const [seedHigh, seedLow] = [seed.readUInt32LE(0), seed.readUInt32LE(4)]
  return (project, eventId, into, at) => {
    let high = mix(seedHigh ^ project)
    let low = mix(seedLow ^ project ^ 0x9e3779b9)
    for (let i = 0; i < eventId.length; i++) {
      const unit = eventId.charCodeAt(i)
      high = Math.imul(rotate(high ^ unit), 0xcc9e2d51)
      low = Math.imul(rotate(low ^ unit), 0x1b873593)
    }
    high = mix(high ^ eventId.length)
    low = mix(low ^ high)
    into[at] = mix(high ^ low)
    into[at + 1] = low
  }
}

function rotate(value: number): number {
  return (value << 13) | (value >>> 19)
}

/** The finaliser of MurmurHash3: every bit of the result depends on every bit of `value`. */
function mix(value: number): number {
  let mixed = value
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
