import { hashKeyStart } from './memory.ts'

/** SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) of `length` bytes at `at`. */
export function sipHash(at: usize, length: usize): u64 {
  const k0 = load<u64>(hashKeyStart)
  const k1 = load<u64>(hashKeyStart + 8)
  // "somepseudorandomlygeneratedbytes"
  let v0: u64 = k0 ^ 0x736f6d65_70736575
  let v1: u64 = k1 ^ 0x646f7261_6e646f6d
  let v2: u64 = k0 ^ 0x6c796765_6e657261
  let v3: u64 = k1 ^ 0x74656462_79746573
  const lastWord = (u64(length) << 56) | (load<u64>(at + (length & ~7)) & ((u64(1) << ((length & 7) << 3)) - 1))
  // one round for each word, then three
  for (let rounds = (length >>> 3) + 4; rounds !== 0; rounds--) {
    const word = rounds > 4 ? load<u64>(at) : rounds === 4 ? lastWord : 0
    if (rounds === 3) v2 ^= 0xff
    v3 ^= word
    v0 += v1
    v2 += v3
    v1 = rotl(v1, 13) ^ v0
    v3 = rotl(v3, 16) ^ v2
    v0 = rotl(v0, 32) + v3
    v2 += v1
    v1 = rotl(v1, 17) ^ v2
    v3 = rotl(v3, 21) ^ v0
    v2 = rotl(v2, 32)
    v0 ^= word
    at += 8
  }
  return v0 ^ v1 ^ v2 ^ v3
}
