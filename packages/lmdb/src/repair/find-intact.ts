/** How many bytes of keys the search compares. A longer unreadable key is compared whole. */
const comparedBytes = 64
/** Limits the bisection: each probe may crash LMDB. */
const bisectionsMax = 24

/** The distance between the numbers of two projects: the first step in a table whose rows are not known yet. */
export const firstGap = 1n << BigInt((comparedBytes - 4) * 8)

export interface IntactSearch {
  /** No row could be read from this key on. */
  unreadable: Buffer
  /** The first step. */
  gap: bigint
  /** Only keys below it are searched. Default: all. */
  end?: Buffer | undefined
  /** Whether the keys are consecutive numbers, all of the same length. */
  isNumbered: boolean
  /** Whether a row with this key, or with a greater one, can be read. */
  isIntact(key: Buffer): Promise<boolean>
  /** The last key of the table; empty if it cannot be read. */
  newestKey(): Promise<Buffer>
}

/**
 * Returns the first readable key that is greater than `unreadable`, or undefined if no key below `end` is readable.
 * Runs an exponential search, and then a binary search, because each read of a damaged page may crash the process that
 * runs LMDB.
 */
export async function findIntact(search: IntactSearch): Promise<Buffer | undefined> {
  const { unreadable, gap, end, isNumbered } = search
  const width = isNumbered ? unreadable.length : Math.max(comparedBytes, unreadable.length)
  const behindAll = end ? toNumber(end, width) : 1n << BigInt(width * 8)
  const isIntact = (at: bigint) => search.isIntact(toKey(at, width))

  const first = toNumber(unreadable, width)
  let [low, high] = [first, first + gap]
  for (let step = gap; high < behindAll && !(await isIntact(high)); step *= 2n) [low, high] = [high, high + step]
  if (high >= behindAll) {
    // the steps may have passed the last key: tries the prefixes of that key
    const newest = await search.newestKey()
    low = first
    for (let length = 1; length <= newest.length && high >= behindAll; length++) {
      const at = toNumber(newest.subarray(0, length), width)
      if (at <= first || at >= behindAll) continue
      if (await isIntact(at)) high = at
      else low = at
    }
    if (high >= behindAll) return undefined
  }
  for (let left = bisectionsMax; left > 0 && high - low > 1n; left--) {
    const middle = (low + high) / 2n
    if (await isIntact(middle)) high = middle
    else low = middle
  }
  return toKey(high, width)
}

/** The distance between two keys; at least 1. */
export function distance(from: Buffer, to: Buffer): bigint {
  const width = Math.max(comparedBytes, from.length, to.length)
  const between = toNumber(to, width) - toNumber(from, width)
  return between > 0n ? between : 1n
}

/** A key as a number, padded with zeros at the end. */
function toNumber(key: Buffer, width: number): bigint {
  return BigInt(`0x${key.toString('hex').padEnd(width * 2, '0')}`)
}

function toKey(number: bigint, width: number): Buffer {
  return Buffer.from(number.toString(16).padStart(width * 2, '0'), 'hex')
}
