import { randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { IngestError } from '@ingest/core'
import type { Table } from '../environment/environment.ts'
import { wordsPerEntry } from './entry.ts'

/**
 * A run: an immutable set of entries, split into blocks by the top bits of their fingerprints. A look-up reads one
 * block, and the same ids are in the same blocks of all runs, so runs are merged block by block.
 */
export interface Run {
  id: number
  /** Random: before the index was rebuilt, a run may have had the same id and other content. */
  nonce: number
  /** 0 for a flushed run; a merged run is one level above its inputs. */
  level: number
  /** The number of blocks is 2 to the power of this. */
  blockBits: number
  /** Number of entries. */
  count: number
}

/** A run that is about to be written. */
export function newRun(id: number, level: number, blockBits: number, count: number): Run {
  return { id, nonce: randomInt(2 ** 48 - 1), level, blockBits, count }
}

/** Runs of one level that are merged into one of the next: a power of two, as each block is split by the next bits. */
export const mergeWidthBits = 3
export const mergeWidth = 1 << mergeWidthBits

/**
 * The average of a block, so that its spread (a deviation of 15) and the checksum fit into one page of LMDB, 4,072
 * bytes or 254 entries, in 97 of 100 cases; the others take two pages.
 */
const entriesPerBlock = 224

/** The default number of entries in a run of level 0; the record that makes it full may add some more. */
export const entriesPerFlush = entriesPerBlock << 10

/**
 * The block bits of a run of level 0 with this number of entries: at least 1, as {@link blockOf} cannot shift by 32.
 */
export function flushBlockBits(entriesPerFlush: number): number {
  return Math.max(1, Math.round(Math.log2(entriesPerFlush / entriesPerBlock)))
}

/** The block bits of a run of `level` with the default number of entries. */
export function defaultBlockBits(level: number): number {
  return flushBlockBits(entriesPerFlush) + level * mergeWidthBits
}

/** The block of a run in which the entries with a fingerprint are. */
export function blockOf(high: number, blockBits: number): number {
  return high >>> (32 - blockBits)
}

const keyBytes = 8
const checksumBytes = 4

/** The key of a block, or of a part of a filter. */
export function partKey(run: number, part: number): Buffer {
  const key = Buffer.allocUnsafe(keyBytes)
  key.writeUInt32BE(run, 0)
  key.writeUInt32BE(part, 4)
  return key
}

/** Writes the words of a part, after their CRC32. Only inside a write transaction. */
export function putPart(table: Table, run: number, part: number, words: Uint32Array): void {
  const bytes = Buffer.allocUnsafe(checksumBytes + words.byteLength)
  bytes.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), checksumBytes)
  bytes.writeUInt32LE(crc32(bytes.subarray(checksumBytes)), 0)
  table.put(partKey(run, part), bytes)
}

/**
 * The words of a part, in memory that the next read overwrites.
 *
 * @throws {DamagedRun} for a missing or damaged part
 */
export function viewPart(table: Pick<Table, 'getBinaryFast'>, run: number, part: number): Uint32Array {
  const bytes = table.getBinaryFast(partKey(run, part))
  const size = (bytes?.length ?? 0) - checksumBytes
  if (
    !bytes ||
    size < 0 ||
    size % 4 !== 0 ||
    crc32(bytes.subarray(checksumBytes, bytes.length)) !== bytes.readUInt32LE(0)
  ) {
    throw new DamagedRun(`Part ${part} of run ${run} of the id index is damaged.`)
  }
  // aligned, as lmdb reads into a buffer with memory of its own
  return new Uint32Array(bytes.buffer, bytes.byteOffset + checksumBytes, size / 4)
}

/** Like {@link viewPart}, but returns a copy. */
export function getPart(table: Pick<Table, 'getBinaryFast'>, run: number, part: number): Uint32Array {
  return viewPart(table, run, part).slice()
}

/** The index on disk is damaged. It can be rebuilt from the log. */
export class DamagedRun extends Error {
  override readonly name = 'DamagedRun'
}

// MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PANIC, MDB_VERSION_MISMATCH, MDB_INVALID, MDB_INCOMPATIBLE, MDB_BAD_TXN
const damageCodes = new Set<unknown>([-30797, -30796, -30795, -30794, -30793, -30784, -30782])

/** Whether an error means that the index on disk is damaged. */
export function isDamage(error: unknown): boolean {
  if (error instanceof IngestError) return error.code === 'store-incompatible'
  return error instanceof DamagedRun || damageCodes.has((error as { code?: unknown }).code)
}

/** Entries in the order of blocks. */
export interface Blocks {
  words: Uint32Array
  /** Where each block begins, in entries; one more at the end. */
  starts: Uint32Array
}

/** Sorts the entries of several arrays into blocks, by the given function and stably: a counting sort. */
export function toBlocks(arrays: readonly Uint32Array[], blocks: number, blockFor: (high: number) => number): Blocks {
  const starts = new Uint32Array(blocks + 1)
  for (const entries of arrays) {
    for (let at = 0; at < entries.length; at += wordsPerEntry) {
      const after = blockFor(entries[at] as number) + 1
      starts[after] = (starts[after] as number) + 1
    }
  }
  for (let block = 1; block <= blocks; block++) {
    starts[block] = (starts[block] as number) + (starts[block - 1] as number)
  }
  const next = starts.slice()
  const words = new Uint32Array((starts[blocks] as number) * wordsPerEntry)
  for (const entries of arrays) {
    for (let at = 0; at < entries.length; at += wordsPerEntry) {
      const block = blockFor(entries[at] as number)
      const to = (next[block] as number) * wordsPerEntry
      next[block] = (next[block] as number) + 1
      words[to] = entries[at] as number
      words[to + 1] = entries[at + 1] as number
      words[to + 2] = entries[at + 2] as number
      words[to + 3] = entries[at + 3] as number
    }
  }
  return { words, starts }
}

/** Writes blocks as the parts of a run from `firstPart` on. Only inside a write transaction. */
export function putBlocks(table: Table, run: number, firstPart: number, { words, starts }: Blocks): void {
  for (let block = 0; block + 1 < starts.length; block++) {
    const [from, to] = [starts[block] as number, starts[block + 1] as number]
    putPart(table, run, firstPart + block, words.subarray(from * wordsPerEntry, to * wordsPerEntry))
  }
}
