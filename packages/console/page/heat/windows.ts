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
  /** About how many events the range has, and in equal spans of it; undefined if that is not known. */
  events?: { total: number; spans: readonly number[] } | undefined
}

/** What a window has on average, if the number of events is known. */
const eventsPerWindow = 512
const unknownCount = 1_024
const countMax = 1 << 20
/** The share of the windows that is spread over time alone: counts may miss events. */
const evenShare = 0.05

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
 *
 * Known counts make windows short where events are dense. That only makes the sample smoother and the responses even:
 * which windows are read does not depend on them.
 */
export function createWindows({ from, to, events }: WindowsOptions): Windows {
  const length = Math.max(0, to - from)
  const wanted = events ? Math.ceil(events.total / eventsPerWindow) : unknownCount
  // at least a millisecond each
  const bits = Math.floor(Math.log2(Math.max(1, Math.min(wanted, length, countMax))))
  const count = 2 ** bits
  const timeAt = createTimeScale({ from, length, spans: events?.spans ?? [] })
  return {
    count,
    window(order) {
      const number = scramble(order, bits)
      return { from: timeAt(number / count), to: timeAt((number + 1) / count) }
    },
  }
}

/** Maps a share of the events to a time: the inverse of their distribution. */
function createTimeScale({ from, length, spans }: { from: number; length: number; spans: readonly number[] }) {
  const total = spans.reduce((sum, each) => sum + each, 0)
  if (total === 0) return (share: number) => from + Math.round(share * length)
  const ends = new Float64Array(spans.length)
  let sum = 0
  for (const [i, count] of spans.entries()) {
    sum += (1 - evenShare) * (count / total) + evenShare / spans.length
    ends[i] = sum
  }
  return (share: number) => {
    // so that the last border is exact
    if (share >= 1) return from + length
    const i = Math.min(spans.length - 1, firstAbove(ends, share))
    const start = i === 0 ? 0 : (ends[i - 1] as number)
    const within = (share - start) / ((ends[i] as number) - start)
    return from + Math.round(((i + within) / spans.length) * length)
  }
}

/** The index of the first value above a limit, in an ascending array. */
function firstAbove(values: Float64Array, limit: number): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((values[middle] as number) > limit) high = middle
    else low = middle + 1
  }
  return low
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
