import { positionAt, wordsPerEntry } from '../ids/entry.ts'

/**
 * Sums over sets of entries of the id index, so that two sets of any size are compared in bounded memory: equal sets
 * have equal sums. Entries are spread over buckets by their fingerprint, so that sums which differ point to few entries.
 */
export interface IdSums {
  add(high: number, low: number, sequence: number, index: number): void
  count(): number
  /** The buckets in which the sums differ. */
  differing(other: IdSums): number[]
  bucketOf(high: number): number
  sumOf(bucket: number): readonly [number, number]
}

const bucketBits = 12

export function createIdSums(): IdSums {
  const first = new Uint32Array(1 << bucketBits)
  const second = new Uint32Array(1 << bucketBits)
  let count = 0
  const bucketOf = (high: number) => high >>> (32 - bucketBits)

  return {
    add(high, low, sequence, index) {
      const bucket = bucketOf(high)
      const position = mix(
        low ^ Math.imul(sequence | 0, 0x9e3779b1) ^ Math.imul(Math.floor(sequence / 2 ** 32), 0x85ebca6b),
      )
      const value = mix(position ^ high ^ (index << 24))
      // typed arrays wrap around
      first[bucket] = (first[bucket] as number) + value
      second[bucket] = (second[bucket] as number) + mix(value ^ position)
      count++
    },
    count: () => count,
    bucketOf,
    sumOf: (bucket) => [first[bucket] as number, second[bucket] as number],
    differing(other) {
      return Array.from(first.keys()).filter((bucket) => {
        const [otherFirst, otherSecond] = other.sumOf(bucket)
        return first[bucket] !== otherFirst || second[bucket] !== otherSecond
      })
    },
  }
}

/** Adds the entries of a block of a run for the records up to `through`; returns how many there are. */
export function addEntries(sums: IdSums, entries: Uint32Array, through: number): number {
  let added = 0
  for (let at = 0; at < entries.length; at += wordsPerEntry) {
    const { sequence, index } = positionAt(entries, at)
    if (sequence > through) continue
    sums.add(entries[at] as number, entries[at + 1] as number, sequence, index)
    added++
  }
  return added
}

/** The finaliser of MurmurHash3 (Appleby, public domain). */
function mix(value: number): number {
  let mixed = value
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}
