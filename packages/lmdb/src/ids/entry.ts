/** Where an event stands in the log: the record's sequence number, and the event's place in it. */
export interface Position {
  sequence: number
  index: number
}

/** Where one of the events that were asked for may be stored. */
export interface Candidate {
  /** Its place among those asked for. */
  queryIndex: number
  position: Position
}

/**
 * An entry says where an event with a certain fingerprint is stored. It is four 32-bit words: the high and the low half
 * of the fingerprint, then the position, as 56 bits of sequence number and 8 bits of index.
 *
 * Entries stand one after another in a `Uint32Array`; in a file their words are in the order of the machine, as LMDB's
 * own are.
 */
export const wordsPerEntry = 4

const indexBits = 8
/** One more than the largest low part of a sequence number, of which 24 bits stand beside the index. */
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
    index: low & ((1 << indexBits) - 1),
  }
}

/** Whether nothing was ever put at `at`: sequence numbers begin at 1. */
export function isEmptyAt(words: Uint32Array, at: number): boolean {
  return words[at + 3] === 0 && words[at + 2] === 0
}
