import { batchBytesMax } from '../events/batch.ts'
import { loadScanner } from './scanner.ts'

/**
 * The hash of an event id, as the high and the low half of 64 bits: SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast
 * short-input PRF", 2012) of its UTF-8, with a secret key of 16 bytes, so that clients cannot craft ids that collide.
 */
export function hashId(key: Uint8Array, eventId: string): [high: number, low: number] {
  const scanner = loadScanner()
  if (scanner === null || eventId.length * bytesPerUnitMax > batchBytesMax) return sipHash(key, eventId)
  const { bytes, words, rowsStart } = scanner
  bytes.set(key, scanner.hashKeyStart)
  scanner.hash(bytes.write(eventId, scanner.bodyStart))
  return [words[rowsStart >> 2] as number, words[(rowsStart >> 2) + 1] as number]
}

/** A UTF-16 code unit takes at most 3 bytes of UTF-8. */
const bytesPerUnitMax = 3

/** Like {@link hashId}, but without WebAssembly: some 50 times slower. */
export function sipHash(key: Uint8Array, eventId: string): [high: number, low: number] {
  const bytes = Buffer.from(eventId)
  const words = new DataView(key.buffer, key.byteOffset, 16)
  const [k0, k1] = [words.getBigUint64(0, true), words.getBigUint64(8, true)]
  // "somepseudorandomlygeneratedbytes"
  const v: State = [
    k0 ^ 0x736f6d6570736575n,
    k1 ^ 0x646f72616e646f6dn,
    k0 ^ 0x6c7967656e657261n,
    k1 ^ 0x7465646279746573n,
  ]
  const padded = Buffer.alloc((bytes.length & ~7) + 8)
  bytes.copy(padded)
  padded[padded.length - 1] = bytes.length
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at)
    v[3] ^= word
    round(v)
    v[0] ^= word
  }
  v[2] ^= 0xffn
  for (let i = 0; i < 3; i++) round(v)
  const hash = v[0] ^ v[1] ^ v[2] ^ v[3]
  return [Number(hash >> 32n), Number(hash & 0xffff_ffffn)]
}

type State = [bigint, bigint, bigint, bigint]

function round(v: State): void {
  v[0] = add(v[0], v[1])
  v[1] = rotate(v[1], 13n) ^ v[0]
  v[0] = rotate(v[0], 32n)
  v[2] = add(v[2], v[3])
  v[3] = rotate(v[3], 16n) ^ v[2]
  v[0] = add(v[0], v[3])
  v[3] = rotate(v[3], 21n) ^ v[0]
  v[2] = add(v[2], v[1])
  v[1] = rotate(v[1], 17n) ^ v[2]
  v[2] = rotate(v[2], 32n)
}

function add(a: bigint, b: bigint): bigint {
  return BigInt.asUintN(64, a + b)
}

function rotate(value: bigint, bits: bigint): bigint {
  return BigInt.asUintN(64, (value << bits) | (value >> (64n - bits)))
}
