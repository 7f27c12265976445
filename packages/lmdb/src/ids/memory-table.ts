import { type Candidate, isEmptyAt, positionAt, putEntry, wordsPerEntry } from './entry.ts'

/** Entries in memory, found by their fingerprint: those that are in no run yet. */
export interface MemoryTable {
  /** How many entries it holds. */
  count(): number
  /** The memory that it takes. */
  memoryBytes: number
  /** The number of the last record whose entries it holds, 0 for none. */
  lastSequence(): number
  /** Adds an entry; sequence numbers may only rise. */
  add(high: number, low: number, sequence: number, index: number): void
  /** Keeps the entries that were added so far in a later {@link rollback}. */
  checkpoint(): void
  /** Removes the entries that were added since the last checkpoint, at a cost that grows with their number only. */
  rollback(): void
  /**
   * Clears up to `slotsMax` slots, as clearing all at once takes milliseconds. Returns whether the whole table is clear;
   * until then it must not be used.
   */
  clear(slotsMax: number): boolean
  /** Adds to `found` each entry with one of `count` fingerprints. */
  search(fingerprints: Uint32Array, count: number, found: Candidate[]): void
}

/**
 * A table for `capacity` entries: open addressing with linear probing, at least half empty, so that a look-up touches
 * little more than one cache line. It never grows.
 */
export function createMemoryTable(capacity: number): MemoryTable {
  const slots = 2 ** Math.ceil(Math.log2(capacity * 2))
  const words = new Uint32Array(slots * wordsPerEntry)
  const mask = slots - 1
  let count = 0
  let lastSequence = 0
  /** The slots of the entries since the last checkpoint, and the number of the last record before them. */
  let added: number[] = []
  let keptSequence = 0
  let clearedSlots = 0
  return {
    count: () => count,
    memoryBytes: words.byteLength,
    lastSequence: () => lastSequence,

    add(high, low, sequence, index) {
      let slot = low & mask
      while (!isEmptyAt(words, slot * wordsPerEntry)) slot = (slot + 1) & mask
      putEntry(words, slot * wordsPerEntry, high, low, sequence, index)
      added.push(slot)
      count++
      lastSequence = sequence
    },

    checkpoint() {
      added = []
      keptSequence = lastSequence
    },

    rollback() {
      // every entry that was probed past one of these is removed as well
      for (const slot of added) words.fill(0, slot * wordsPerEntry, (slot + 1) * wordsPerEntry)
      count -= added.length
      lastSequence = keptSequence
      added = []
    },

    clear(slotsMax) {
      const end = Math.min(slots, clearedSlots + slotsMax)
      words.fill(0, clearedSlots * wordsPerEntry, end * wordsPerEntry)
      clearedSlots = end % slots
      count = 0
      lastSequence = 0
      keptSequence = 0
      added = []
      return clearedSlots === 0
    },

    search(fingerprints, wanted, found) {
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
