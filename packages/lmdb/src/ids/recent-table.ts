import { type Candidate, isEmptyAt, positionAt, putEntry, wordsPerEntry } from './entry.ts'

/** Entries in memory, found by their fingerprint: those that stand in the log but in no run yet. */
export interface RecentTable {
  /** How many entries it holds. */
  count(): number
  /** The number of the last record whose entries it holds, 0 for none. */
  lastSequence(): number
  /** Takes an entry; the records' numbers may only rise. */
  add(high: number, low: number, sequence: number, index: number): void
  /** Keeps the entries that were added so far. */
  checkpoint(): void
  /** Removes the entries that were added since they were last kept, at a cost that grows with their number only. */
  rollback(): void
  /** Adds to `found` each entry with one of `count` fingerprints. */
  search(fingerprints: Uint32Array, count: number, found: Candidate[]): void
}

/**
 * A table with room for `capacity` entries: open addressing with linear probing, half empty at the least, so that a
 * look-up touches little more than one line of the cache. It never grows.
 */
export function createRecentTable(capacity: number): RecentTable {
  const slots = 2 ** Math.ceil(Math.log2(capacity * 2))
  const words = new Uint32Array(slots * wordsPerEntry)
  const mask = slots - 1
  let count = 0
  let lastSequence = 0
  /** The slots of the entries that are not kept yet, and the number of the last record before them. */
  let added: number[] = []
  let keptSequence = 0
  return {
    count: () => count,
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
      // no entry was placed behind one of these that is not removed as well
      for (const slot of added) words.fill(0, slot * wordsPerEntry, (slot + 1) * wordsPerEntry)
      count -= added.length
      lastSequence = keptSequence
      added = []
    },

    search(fingerprints, wanted, found) {
      for (let of = 0; of < wanted; of++) {
        const [high, low] = [fingerprints[of * 2] as number, fingerprints[of * 2 + 1] as number]
        for (let slot = low & mask; ; slot = (slot + 1) & mask) {
          const at = slot * wordsPerEntry
          if (isEmptyAt(words, at)) break
          if (words[at] === high && words[at + 1] === low)
            found.push({ queryIndex: of, position: positionAt(words, at) })
        }
      }
    },
  }
}
