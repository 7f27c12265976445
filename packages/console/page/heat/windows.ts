/** A time range, divided into windows without gaps. Times are milliseconds since 1970, `from <= at < to`. */
export interface Windows {
  /** Number of windows: a power of two. */
  count: number
  /** The window to read at position `order`, from 0. */
  window(order: number): { from: number; to: number }
}

export interface WindowsOptions {
  from: number
  to: number
  /**
   * Approximate number of events in the range: the more, the shorter the windows. 0 makes the range a single window.
   */
  total?: number | undefined
}

/** Target average of events in a window, so that one response holds it. */
const eventsPerWindow = 512
const countMin = 1_024
const countMax = 1 << 20

/**
 * The windows of a sample, which consists of all events of some of them.
 *
 * Why whole windows: a response begins at `from`. Sampling the first events of slices would over-represent the time
 * after slice borders, and sampling the same number of events from each slice would over-represent quiet hours. If
 * whole windows are chosen at random, each event has the same chance, `windows read / windows`, whatever the rate: no
 * weights are needed, and `events × windows / windows read` estimates the total.
 *
 * The first 2ⁿ windows include one in each of 2ⁿ equal parts of the range, at a random place in it (a van der Corput
 * sequence, scrambled as by Owen, 1995). So any number of windows is spread evenly, and they cannot coincide with a
 * period of the traffic. The order is always the same, so that a link shows the same sample.
 */
export function createWindows({ from, to, total = countMin }: WindowsOptions): Windows {
  const length = Math.max(0, to - from)
  const wanted = total === 0 ? 1 : Math.max(countMin, Math.min(countMax, total / eventsPerWindow))
  // each window is at least a millisecond long
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

/** A permutation of the numbers below 2^bits: the bits are reversed, each flipped depending on the bits before it. */
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

/** The finalizer of MurmurHash3: 32 bits. */
export function hash(value: number): number {
  let mixed = value | 0
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
