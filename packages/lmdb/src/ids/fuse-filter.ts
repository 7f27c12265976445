import type { Table } from '../environment/environment.ts'
import { wordsPerEntry } from './entry.ts'
import { DamagedRun, defaultBlockBits, getPart, putPart, type Run } from './run.ts'

/*
 * Binary fuse filters with three positions (Graf, Lemire: "Binary Fuse Filters: Fast and Smaller Than Xor Filters",
 * 2022): an id may be in a run if the numbers at its three positions, combined by XOR, are its check. They take 1.16
 * times the bits of the checks, and of the ids that are not in the run, one in 2 to the power of these bits passes.
 *
 * Such a filter is built from all of its ids at once, so a run has several: one for the ids of every 1,024 blocks, a
 * partition. A merge builds one after another.
 */

const partitionBlockBits = defaultBlockBits(0)

/**
 * The bits of a check by the level of the run: 16, 12 or 10. Small runs are as numerous as large ones, but hold few
 * ids.
 */
const checkBits = [16, 12]
const checkBitsOfLarge = 10
/** A filter begins with the lower 8 bits of each check. The other bits follow, because few look-ups need them. */
const lowBits = 8

/** The number of first bits of a fingerprint that select its partition. */
function partitionBits({ blockBits }: Run): number {
  return Math.max(0, blockBits - partitionBlockBits)
}

/** How many blocks of a run are one partition. */
export function blocksPerPartition({ blockBits }: Run): number {
  return 2 ** Math.min(blockBits, partitionBlockBits)
}

/** A filter has `slots` checks. The positions of an id are in three consecutive segments, the first before `starts`. */
interface Shape {
  bits: number
  segment: number
  starts: number
  slots: number
}

/** The shape of the filters of a run. The constants are from the paper. */
function shapeOf(run: Run): Shape {
  const average = run.count / 2 ** partitionBits(run)
  // most partitions have fewer; one that has more takes some attempts
  const size = average + 2 * Math.sqrt(average) + 8
  const segment = 2 ** Math.floor(Math.log(size) / Math.log(3.33) + 2.25)
  const slotsPerId = Math.max(1.125, 0.875 + (0.25 * Math.log(1e6)) / Math.log(size))
  const starts = Math.max(1, Math.ceil((size * slotsPerId) / segment) - 2) * segment
  return { bits: checkBits[run.level] ?? checkBitsOfLarge, segment, starts, slots: starts + 2 * segment }
}

function wordsOf({ slots, bits }: Shape): number {
  return Math.ceil((slots * bits) / 32)
}

/*
 * The two halves of the hash of an id. No two ids have the same, as each step can be undone, and an attempt changes all
 * of them. Each bit depends on the low half, since the first bits of the high one are the same in a whole partition.
 */

function firstHash(high: number, low: number, attempt: number): number {
  const mixed = Math.imul(low ^ Math.imul(attempt, 0x9e3779b1), 0x85ebca6b)
  const both = Math.imul(mixed ^ (mixed >>> 15) ^ high, 0xc2b2ae35)
  return both ^ (both >>> 16)
}

function secondHash(first: number, low: number): number {
  const both = Math.imul(first, 0x9e3779b1) ^ low
  return Math.imul(both ^ (both >>> 15), 0x27d4eb2f)
}

function firstPosition({ starts }: Shape, first: number): number {
  // as an integer; Math.floor takes longer
  return ((first >>> 0) * (starts / 2 ** 32)) | 0
}

function secondPosition({ segment }: Shape, position: number, first: number): number {
  return (position + segment) ^ (first & (segment - 1))
}

function thirdPosition({ segment }: Shape, position: number, second: number): number {
  return (position + 2 * segment) ^ (second & (segment - 1))
}

/** Its first bits, as the position uses the last ones. */
function checkOf(second: number): number {
  return second >>> 16
}

/** After this number of attempts, a partition has no filter: any id may then be in it. */
const attemptsMax = 64
const noFilter = 0xffff_ffff
/** The indexes of ids share a word with a number of ids. */
const indexBits = 22

/** Writes the filter of a partition from all of its entries. Only inside a write transaction. */
export function putFilter(table: Table, run: Run, partition: number, entries: readonly Uint32Array[]): void {
  putPart(table, run.id, partition, makeFilter(shapeOf(run), entries))
}

/** The attempt that succeeded, and the checks. None succeeds with a fingerprint that occurs twice. */
function makeFilter(shape: Shape, entries: readonly Uint32Array[]): Uint32Array {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const checks = assignChecks(shape, entries, attempt)
    if (!checks) continue
    const filter = new Uint32Array(1 + wordsOf(shape))
    filter[0] = attempt
    putChecks(checks, shape.bits, new Uint8Array(filter.buffer, 4))
    return filter
  }
  return Uint32Array.of(noFilter)
}

/**
 * The check of each slot, such that the slots of each id combine to the check of the id. Undefined if there is no order
 * of the ids in which each has a slot that no earlier one has.
 */
function assignChecks(shape: Shape, arrays: readonly Uint32Array[], attempt: number): Uint16Array | undefined {
  const count = arrays.reduce((sum, { length }) => sum + length / wordsPerEntry, 0)
  if (count > Math.min(shape.slots, 1 << indexBits)) return undefined
  const hashes = hashAll(arrays, count, attempt)
  const order = orderIds(shape, hashes)
  if (!order) return undefined
  const checks = new Uint16Array(shape.slots)
  for (let taken = count - 1; taken >= 0; taken--) {
    const i = order.ids[taken] as number
    const first = hashes[i * 2] as number
    const second = hashes[i * 2 + 1] as number
    const position = firstPosition(shape, first)
    // the check of its own slot is still 0
    checks[order.slots[taken] as number] =
      (checks[position] as number) ^
      (checks[secondPosition(shape, position, first)] as number) ^
      (checks[thirdPosition(shape, position, second)] as number) ^
      checkOf(second)
  }
  return checks
}

/** Both hashes of each entry. */
function hashAll(arrays: readonly Uint32Array[], count: number, attempt: number): Uint32Array {
  const hashes = new Uint32Array(count * 2)
  let to = 0
  for (const entries of arrays) {
    for (let at = 0; at < entries.length; at += wordsPerEntry) {
      const low = entries[at + 1] as number
      const first = firstHash(entries[at] as number, low, attempt)
      hashes[to++] = first
      hashes[to++] = secondHash(first, low)
    }
  }
  return hashes
}

/** The ids in an order in which each has a slot that no later one has, and these slots. */
function orderIds(shape: Shape, hashes: Uint32Array): { ids: Uint32Array; slots: Uint32Array } | undefined {
  const count = hashes.length / 2
  /** For each slot, the number of ids with a position there, and the XOR of their indexes. */
  const users = new Uint32Array(shape.slots)
  const one = 1 << indexBits
  for (let i = 0; i < count; i++) {
    const first = hashes[i * 2] as number
    const position = firstPosition(shape, first)
    const next = secondPosition(shape, position, first)
    const last = thirdPosition(shape, position, hashes[i * 2 + 1] as number)
    users[position] = ((users[position] as number) + one) ^ i
    users[next] = ((users[next] as number) + one) ^ i
    users[last] = ((users[last] as number) + one) ^ i
  }
  // an id that is alone in a slot gets it; once it is removed, other ids become alone in theirs
  const alone = new Uint32Array(shape.slots)
  let waiting = 0
  for (let slot = 0; slot < shape.slots; slot++) noteAlone(slot)
  const ids = new Uint32Array(count)
  const slots = new Uint32Array(count)
  let taken = 0
  while (waiting > 0) {
    const slot = alone[--waiting] as number
    const user = users[slot] as number
    if (user >>> indexBits !== 1) continue
    const i = user & (one - 1)
    const first = hashes[i * 2] as number
    const position = firstPosition(shape, first)
    const next = secondPosition(shape, position, first)
    const last = thirdPosition(shape, position, hashes[i * 2 + 1] as number)
    // there were more ids than their number has bits, so they cannot be different ones
    if (slot !== position && slot !== next && slot !== last) return undefined
    ids[taken] = i
    slots[taken++] = slot
    remove(position, i)
    remove(next, i)
    remove(last, i)
  }
  return taken < count ? undefined : { ids, slots }

  function noteAlone(slot: number): void {
    if ((users[slot] as number) >>> indexBits === 1) alone[waiting++] = slot
  }

  function remove(slot: number, i: number): void {
    users[slot] = ((users[slot] as number) - one) ^ i
    noteAlone(slot)
  }
}

function putChecks(checks: Uint16Array, bits: number, filter: Uint8Array): void {
  const width = bits - lowBits
  const mask = (1 << width) - 1
  for (let slot = 0; slot < checks.length; slot++) {
    const check = checks[slot] as number
    filter[slot] = check
    const bit = slot * width
    const at = checks.length + (bit >>> 3)
    filter[at] = (filter[at] as number) | (((check >>> lowBits) & mask) << (bit & 7))
  }
}

/** Fingerprints that are searched, high and low halves one after another, and their hashes of the first attempt. */
export interface Queries {
  count: number
  fingerprints: Uint32Array
  hashes: Uint32Array
}

export function makeQueries(fingerprints: Uint32Array, count: number): Queries {
  const hashes = new Uint32Array(count * 2)
  for (let i = 0; i < count; i++) {
    const low = fingerprints[i * 2 + 1] as number
    const first = firstHash(fingerprints[i * 2] as number, low, 0)
    hashes[i * 2] = first
    hashes[i * 2 + 1] = secondHash(first, low)
  }
  return { count, fingerprints, hashes }
}

/** The filters of a run, each of which is checked against its CRC32 when it is read. */
export type RunFilter = ReturnType<typeof openFilter>

export function openFilter(table: Pick<Table, 'getBinaryFast'>, run: Run) {
  const shape = shapeOf(run)
  const shift = 31 - partitionBits(run)
  const partitions = 2 ** partitionBits(run)
  const filters: { attempt: number; bytes: Uint8Array }[] = []
  const lowMask = (1 << lowBits) - 1
  const othersMask = (1 << (shape.bits - lowBits)) - 1

  return {
    /** The indexes of the queries that may be in the run, among them all that need a filter which is not read yet. */
    select({ count, fingerprints, hashes }: Queries): number[] {
      const found: number[] = []
      for (let i = 0; i < count; i++) {
        const high = fingerprints[i * 2] as number
        // two shifts, as one by 32 bits would be none
        const partition = (high >>> 1) >>> shift
        const filter = filters[partition]
        if (filter === undefined || filter.attempt === noFilter) {
          found.push(i)
          continue
        }
        const { attempt, bytes } = filter
        let first = hashes[i * 2] as number
        let second = hashes[i * 2 + 1] as number
        if (attempt !== 0) {
          const low = fingerprints[i * 2 + 1] as number
          first = firstHash(high, low, attempt)
          second = secondHash(first, low)
        }
        const position = firstPosition(shape, first)
        const next = secondPosition(shape, position, first)
        const last = thirdPosition(shape, position, second)
        const combined = (bytes[position] as number) ^ (bytes[next] as number) ^ (bytes[last] as number)
        if (((combined ^ checkOf(second)) & lowMask) !== 0) continue
        const others = othersAt(bytes, shape, position) ^ othersAt(bytes, shape, next) ^ othersAt(bytes, shape, last)
        if (((others ^ (checkOf(second) >>> lowBits)) & othersMask) === 0) found.push(i)
      }
      return found
    },
    /**
     * Reads more filters until then, in milliseconds of `performance.now()`; returns whether all are read.
     *
     * @throws {DamagedRun} for a damaged filter
     */
    read(until: number): boolean {
      while (filters.length < partitions && performance.now() < until) {
        const words = getPart(table, run.id, filters.length)
        const attempt = words[0] as number
        if (words.length !== 1 + (attempt === noFilter ? 0 : wordsOf(shape))) {
          throw new DamagedRun(`The filter ${filters.length} of run ${run.id} of the id index is of another size.`)
        }
        filters.push({ attempt, bytes: new Uint8Array(words.buffer, 4) })
      }
      return filters.length === partitions
    },
    /** The memory of the filters that were read. */
    memoryBytes: () => filters.reduce((sum, { bytes }) => sum + bytes.byteLength, 0),
  }
}

/** The upper bits of a check; those above them mean nothing. */
function othersAt(filter: Uint8Array, { slots, bits }: Shape, slot: number): number {
  const bit = slot * (bits - lowBits)
  return (filter[slots + (bit >>> 3)] as number) >>> (bit & 7)
}
