import { column, wordsPerEvent } from '@ingest/core/internal'

/**
 * Writes the fingerprint of an event, 64 bits, to two words of `into` from `at` on: the hash of its id combined with
 * its project, so that one id has different fingerprints in different projects. A collision only costs a read of the
 * log.
 */
export function fingerprint(project: number, hashHigh: number, hashLow: number, into: Uint32Array, at: number): void {
  const salt = mix(project)
  into[at] = hashHigh ^ salt
  into[at + 1] = hashLow ^ mix(salt ^ project)
}

export type Fingerprint = typeof fingerprint

export const fingerprintBits = 64

/** Returns the function that makes fingerprints of `bits` bits. Tests use at most 31 bits, for collisions. */
export function createFingerprint(bits: number): Fingerprint {
  if (bits === fingerprintBits) return fingerprint
  return (project, hashHigh, hashLow, into, at) => {
    fingerprint(project, hashHigh, hashLow, into, at)
    into[at] = 0
    into[at + 1] = (into[at + 1] as number) & (2 ** bits - 1)
  }
}

/** A copy of the rows of `BatchEvents`, with fingerprints in place of hashes. */
export function withFingerprints(rows: Uint32Array, project: number, fingerprint: Fingerprint): Uint32Array {
  const own = rows.slice()
  for (let at = column.hashHigh; at < own.length; at += wordsPerEvent) {
    fingerprint(project, own[at] as number, own[at + 1] as number, own, at)
  }
  return own
}

/** The finaliser of MurmurHash3 (Appleby, public domain): every bit of the result depends on every bit of `value`. */
export function mix(value: number): number {
  let mixed = value
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
