/**
 * Writes the fingerprint of an event, 64 bits, to two words of `into` from `at` on: the hash of its id combined with its
 * project, so that one id has different fingerprints in different projects. A collision only costs a read of the log.
 */
export function fingerprint(project: number, hashHigh: number, hashLow: number, into: Uint32Array, at: number): void {
  const salt = mix(project)
  into[at] = hashHigh ^ salt
  into[at + 1] = hashLow ^ mix(salt ^ project)
}

export type Fingerprint = typeof fingerprint

/** The finaliser of MurmurHash3 (Appleby, public domain): every bit of the result depends on every bit of `value`. */
export function mix(value: number): number {
  let mixed = value
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
