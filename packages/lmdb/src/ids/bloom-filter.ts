import type { Table } from '../environment/environment.ts'
import { putPart, type Run, viewPart } from './run.ts'

/**
 * A blocked Bloom filter (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007): all bits
 * of an id are in one cache line, so that a query costs one cache miss. With 10 bits an id and 6 bits set, about one in
 * a hundred queries for an unknown id is a false positive.
 */
export type BloomFilter = Uint32Array

const bitsPerId = 10
const bitsSet = 6
const lineWords = 16
const lineBits = lineWords * 32

/** An empty filter for `count` ids, in memory that threads can share. */
export function createFilter(count: number): BloomFilter {
  return new Uint32Array(new SharedArrayBuffer(filterWords(count) * 4))
}

function filterWords(count: number): number {
  return Math.max(1, Math.ceil((count * bitsPerId) / lineBits)) * lineWords
}

export function addToFilter(filter: BloomFilter, high: number, low: number): void {
  const line = lineIndex(filter, high, low)
  for (let i = 0, hash = low; i < bitsSet; i++) {
    hash = advance(hash)
    const word = line + (hash >>> 28)
    filter[word] = (filter[word] as number) | (1 << ((hash >>> 23) & 31))
  }
}

/** False only for an id that was never added. */
export function mayHave(filter: BloomFilter, high: number, low: number): boolean {
  const line = lineIndex(filter, high, low)
  // three bits at a time, as a branch for each single bit would be mispredicted half of the time
  const first = advance(low)
  const second = advance(first)
  const third = advance(second)
  if ((bitOf(filter, line, first) & bitOf(filter, line, second) & bitOf(filter, line, third) & 1) === 0) return false
  const fourth = advance(third)
  const fifth = advance(fourth)
  const sixth = advance(fifth)
  return (bitOf(filter, line, fourth) & bitOf(filter, line, fifth) & bitOf(filter, line, sixth) & 1) !== 0
}

/** The bit of a hash, as the lowest bit of the result; the others mean nothing. */
function bitOf(filter: BloomFilter, line: number, hash: number): number {
  // a shift uses the lower five bits of its count
  return (filter[line + (hash >>> 28)] as number) >>> (hash >>> 23)
}

/** Depends on other bits than the block of a run does: else the ids of one block would share a few lines. */
function lineIndex(filter: BloomFilter, high: number, low: number): number {
  const hash = Math.imul(high ^ (low << 7), 0x9e3779b1) >>> 0
  return (((hash / 0x1_0000_0000) * (filter.length / lineWords)) | 0) * lineWords
}

/** A step of a full-period generator modulo 2^32; only its upper bits are used. */
function advance(hash: number): number {
  return (Math.imul(hash, 0x85ebca6b) + 0x27d4eb2f) | 0
}

/** A filter is stored in parts of so many words, as LMDB handles values under 1 MiB best. */
const wordsPerPart = 2 ** 17

/** Writes the filter of a run. Only inside a write transaction. */
export function putFilter(table: Table, run: Run, filter: BloomFilter): void {
  for (let part = 0; part * wordsPerPart < filter.length; part++) {
    putPart(table, run.id, part, filter.subarray(part * wordsPerPart, (part + 1) * wordsPerPart))
  }
}

/** Reads the filter of a run. */
export function getFilter(table: Pick<Table, 'getBinaryFast'>, run: Run): BloomFilter {
  const filter = new Uint32Array(filterWords(run.count))
  for (let part = 0; part * wordsPerPart < filter.length; part++) {
    filter.set(viewPart(table, run.id, part), part * wordsPerPart)
  }
  return filter
}
