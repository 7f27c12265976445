/**
 * The fingerprint by which an event is found, 64 bits in two words of `into`, at `at` and behind it: the hash of its id,
 * combined with its project, so that the same id has another fingerprint in each project. A collision costs a read of the
 * log, nothing else.
 */
export type Fingerprint = (project: number, hashHigh: number, hashLow: number, into: Uint32Array, at: number) => void

export const fingerprint: Fingerprint = (project, hashHigh, hashLow, into, at) => {
  const salt = mix(project)
  into[at] = hashHigh ^ salt
  into[at + 1] = hashLow ^ mix(salt ^ project)
}

/** The finaliser of MurmurHash3 (Appleby, public domain): every bit of the result depends on every bit of `value`. */
function mix(value: number): number {
  let mixed = value
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
