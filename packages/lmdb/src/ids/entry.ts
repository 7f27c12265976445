import type { Position } from '../log/record.ts'

/** A position at which an event of a query may be stored. */
export interface Candidate {
  /** The index of its fingerprint in the query. */
  queryIndex: number
  position: Position
}

/**
 * An entry maps a fingerprint to the position of an event. It is four 32-bit words: the high and the low half of the
 * fingerprint, then the position, as 56 bits of sequence number and 8 bits of index.
 *
 * Entries are consecutive in a `Uint32Array`; in a file their words are in the byte order of the machine, as those of
 * LMDB are.
 */
export const wordsPerEntry = 4

const indexBits = 8
/** The most events of one record. */
export const entriesPerRecordMax = 1 << indexBits
/** The low 24 bits of a sequence number share a word with the index. */
const sequenceLowSize = 2 ** (32 - indexBits)

/** Writes an entry to the words from `at` on. */
export function putEntry(
  words: Uint32Array,
  at: number,
  high: number,
  low: number,
  sequence: number,
  index: number,
): void {
  words[at] = high
  words[at + 1] = low
  words[at + 2] = Math.floor(sequence / sequenceLowSize)
  words[at + 3] = ((sequence << indexBits) | index) >>> 0
}

/** The position in the entry at `at`. */
export function positionAt(words: Uint32Array, at: number): Position {
  const low = words[at + 3] as number
  return {
    sequence: (words[at + 2] as number) * sequenceLowSize + (low >>> indexBits),
    index: low & (entriesPerRecordMax - 1),
  }
}

/** Whether there is no entry at `at`: sequence numbers begin at 1. */
export function isEmptyAt(words: Uint32Array, at: number): boolean {
  return words[at + 3] === 0 && words[at + 2] === 0
}
