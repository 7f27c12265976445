import { type Candidate, isEmptyAt, positionAt, putEntry, wordsPerEntry } from './entry.ts'

/** The entries that are in no run yet, in memory, by fingerprint. */
export type MemoryTable = ReturnType<typeof createMemoryTable>

/**
 * A table for `capacity` entries: open addressing with linear probing, at least half empty, so that a look-up touches
 * little more than one cache line. It never grows.
 */
export function createMemoryTable(capacity: number) {
  const slots = 2 ** Math.ceil(Math.log2(capacity * 2))
  const words = new Uint32Array(slots * wordsPerEntry)
  const mask = slots - 1
  let count = 0
  let lastSequence = 0
  /** The slots of the entries since the last checkpoint, and the number of the last record before them. */
  let added: number[] = []
  let keptSequence = 0
  return {
    count: () => count,
    memoryBytes: words.byteLength,
    /** The number of the last record whose entries it holds, 0 for none. */
    lastSequence: () => lastSequence,

    /** Adds an entry; sequence numbers may only rise. */
    add(high: number, low: number, sequence: number, index: number): void {
      let slot = low & mask
      while (!isEmptyAt(words, slot * wordsPerEntry)) slot = (slot + 1) & mask
      putEntry(words, slot * wordsPerEntry, high, low, sequence, index)
      added.push(slot)
      count++
      lastSequence = sequence
    },

    /** Keeps the entries that were added so far in a later rollback. */
    checkpoint(): void {
      added = []
      keptSequence = lastSequence
    },

    /** Removes the entries that were added since the last checkpoint, at a cost that grows with their number only. */
    rollback(): void {
      // every entry that was probed past one of these is removed as well
      for (const slot of added) words.fill(0, slot * wordsPerEntry, (slot + 1) * wordsPerEntry)
      count -= added.length
      lastSequence = keptSequence
      added = []
    },

    clear(): void {
      words.fill(0)
      count = 0
      lastSequence = 0
      keptSequence = 0
      added = []
    },

    /** Adds to `found` each entry with one of `wanted` fingerprints, high and low halves one after another. */
    search(fingerprints: Uint32Array, wanted: number, found: Candidate[]): void {
      for (let of = 0; of < wanted; of++) {
        const low = fingerprints[of * 2 + 1] as number
        for (let slot = low & mask; ; slot = (slot + 1) & mask) {
          const at = slot * wordsPerEntry
          if (isEmptyAt(words, at)) break
          if (words[at + 1] === low && words[at] === fingerprints[of * 2])
            found.push({ queryIndex: of, position: positionAt(words, at) })
        }
      }
    },
  }
}
