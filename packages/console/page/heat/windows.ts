/** A time range, cut into windows without gaps; times are milliseconds since 1970, `from <= at < to`. */
export interface Windows {
  /** How many there are: a power of two. */
  count: number
  /** The window that is read as the `order`th, from 0. */
  window(order: number): { from: number; to: number }
}

export interface WindowsOptions {
  from: number
  to: number
  /** About how many events the range has: with more, windows are shorter. 0 makes the range one window. */
  total?: number | undefined
}

/** What a window of many has on average, so that one response holds it. */
const eventsPerWindow = 512
const countMin = 1_024
const countMax = 1 << 20

/**
 * The windows of a sample, which is every event of some of them.
 *
 * Why whole windows: a response begins at `from`. A sample of the first events of slices would over-represent what
 * happens behind the borders of slices, and the same number of events of each slice would over-represent quiet hours.
 * Of whole windows that are chosen at random, each event has the same chance, that is `windows read / windows`, whatever
 * the rate: nothing needs a weight, and `events × windows / windows read` estimates the total.
 *
 * Of the first 2ⁿ windows there is one in each of 2ⁿ equal parts of the range, at a random place in it (a van der Corput
 * sequence, scrambled as by Owen, 1995), so that any number of them is spread evenly and no period of the traffic can
 * coincide with theirs. The order is the same each time: a link shows the same sample.
 */
export function createWindows({ from, to, total = countMin }: WindowsOptions): Windows {
  const length = Math.max(0, to - from)
  const wanted = total === 0 ? 1 : Math.max(countMin, Math.min(countMax, total / eventsPerWindow))
  // at least a millisecond each
  const bits = Math.floor(Math.log2(Math.max(1, Math.min(wanted, length))))
  const count = 2 ** bits
  const timeAt = (number: number) => from + Math.round((number / count) * length)
  return {
    count,
    window(order) {
      const number = scramble(order, bits)
      return { from: timeAt(number), to: timeAt(number + 1) }
    },
  }
}

/** A permutation of the numbers below 2^bits: the bits reversed, each flipped depending on those before it. */
function scramble(order: number, bits: number): number {
  let number = 0
  let before = 1
  for (let bit = 0; bit < bits; bit++) {
    const digit = (order >>> bit) & 1
    number = 2 * number + (digit ^ (hash(before) & 1))
    before = 2 * before + digit
  }
  return number
}

/** The finalizer of MurmurHash3. */
function hash(value: number): number {
  let mixed = value | 0
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
