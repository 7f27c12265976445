import t from 'tap'
import { createWindows, type WindowsOptions } from '../page/heat/windows.ts'

const hour = 3_600_000
const from = Date.UTC(2026, 10, 20)
const to = from + 72 * hour

function readOrder(options: WindowsOptions, read: number) {
  const windows = createWindows(options)
  return Array.from({ length: read }, (_, order) => windows.window(order))
}

/** Counts of events in equal spans of the range. */
function countSpans(times: readonly number[], spans: number): number[] {
  const counts = new Array<number>(spans).fill(0)
  for (const at of times) {
    const span = Math.floor(((at - from) / (to - from)) * spans)
    counts[span] = (counts[span] as number) + 1
  }
  return counts
}

/** The minimal standard generator of Park and Miller. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 16_807) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/** Three days: nights have a twentieth of the traffic, and a fifth of all events happens in the first second of a minute. */
function unevenEvents(number: number): { at: number; isFirst: boolean }[] {
  const random = createRandom(5)
  const events = []
  while (events.length < number) {
    const at = from + random() * (to - from)
    if (random() > Math.max(0.05, Math.sin((2 * Math.PI * (at - from)) / (24 * hour)))) continue
    const isFirst = random() < 0.2
    const second = isFirst ? 0 : 1 + random() * 59
    events.push({ at: Math.floor(at / 60_000) * 60_000 + second * 1_000 + (isFirst ? random() * 1_000 : 0), isFirst })
  }
  return events.filter(({ at }) => at >= from && at < to).sort((a, b) => a.at - b.at)
}

t.test('windows cover a range once, however many events there are', async (t) => {
  for (const total of [undefined, 0, 3, 5_000_000, Number.POSITIVE_INFINITY]) {
    const { count } = createWindows({ from, to, total })
    const windows = readOrder({ from, to, total }, Math.min(count, 65_536)).sort((a, b) => a.from - b.from)
    if (count > 65_536) continue
    t.equal(windows[0]?.from, from)
    t.equal(windows.at(-1)?.to, to)
    for (const [i, window] of windows.slice(1).entries()) if (window.from !== windows[i]?.to) t.fail(`gap at ${i}`)
  }
  t.equal(createWindows({ from, to, total: 0 }).count, 1)
  t.equal(createWindows({ from, to, total: 5_000_000 }).count, 8_192, 'about 600 events in each')
  t.equal(createWindows({ from, to: from + 5 }).count, 4, 'each at least a millisecond')
  t.equal(createWindows({ from, to: from }).count, 1)
})

t.test('any number of windows is spread evenly over the range', async (t) => {
  for (const read of [1, 2, 3, 7, 16, 100, 128]) {
    const parts = 2 ** Math.floor(Math.log2(read))
    const counts = countSpans(
      readOrder({ from, to }, read).map(({ from }) => from),
      parts,
    )
    t.ok(
      counts.every((count) => count === 1 || count === 2),
      `${read} windows`,
    )
  }
})

const events = unevenEvents(150_000)
/** Six hours each. */
const parts = 12

/** The windows that are read first, as a sample of the events. */
function sample(windows: readonly { from: number; to: number }[]) {
  const ends = Float64Array.from(windows.flatMap(({ from, to }) => [from, to])).sort()
  let i = 0
  return events.filter(({ at }) => {
    while (i < ends.length && (ends[i] as number) <= at) i++
    // between a start and an end
    return i % 2 === 1
  })
}

/** The greatest distance between the shares of parts of the range. */
function distance(sampled: readonly { at: number }[]): number {
  const sharesOf = (list: readonly { at: number }[]) =>
    countSpans(
      list.map(({ at }) => at),
      parts,
    ).map((count) => count / list.length)
  const truth = sharesOf(events)
  return Math.max(...sharesOf(sampled).map((share, i) => Math.abs(share - (truth[i] as number))))
}

const firstShare = (list: readonly { isFirst: boolean }[]) => list.filter(({ isFirst }) => isFirst).length / list.length

t.test('a sample of uneven traffic has the shares and the total of all events', async (t) => {
  for (const [total, windows] of [
    [undefined, 128],
    [4_000_000, 1_024],
  ] as const) {
    const options = { from, to, total }
    const { count } = createWindows(options)
    const sampled = sample(readOrder(options, windows))
    const estimate = (sampled.length * count) / windows
    t.ok(Math.abs(estimate / events.length - 1) < 0.1, `${Math.round(estimate)} of ${events.length}`)
    t.ok(distance(sampled) < 0.03, `shares differ by ${distance(sampled)}`)
    t.ok(Math.abs(firstShare(sampled) - 0.2) < 0.02, `first seconds have ${firstShare(sampled)}`)
  }
})

t.test('a sample of the first events of slices would be biased', async (t) => {
  const each = 20
  const slices = Array.from({ length: 288 }, (_, i) => from + (i * (to - from)) / 288)
  const biased = slices.flatMap((start) => {
    const at = events.findIndex((event) => event.at >= start)
    return events.slice(at, at + each)
  })
  t.ok(distance(biased) > 0.05, 'quiet hours are over-represented')
  t.ok(firstShare(biased) > 0.22, 'events at the start of a minute are over-represented')
})
