import t from 'tap'
import { minuteMs } from '../../../page/views/now/minutes.ts'
import {
  addGap,
  addSample,
  emptyHistory,
  historyMs,
  ratesByMinute,
  type Sample,
  summarizeRates,
} from '../../../page/views/now/rate-history.ts'

const historyOf = (...samples: Sample[]) => samples.reduce(addSample, emptyHistory)
const at = 1_795_000_020_000

t.test('the rate is what the counter gained, by the time between two samples', async (t) => {
  const { points } = historyOf({ at, events: 100 }, { at: at + 2_000, events: 300 }, { at: at + 4_500, events: 300 })
  t.same(points, [
    { at: at + 2_000, perSecond: 100 },
    { at: at + 4_500, perSecond: 0 },
  ])
})

t.test('one sample says nothing of a rate', async (t) => {
  t.same(historyOf({ at, events: 100 }).points, [])
  t.equal(summarizeRates(historyOf({ at, events: 100 })), undefined)
})

t.test('a pause is a gap, not a mean', async (t) => {
  const { points } = historyOf({ at, events: 0 }, { at: at + 60_000, events: 600 }, { at: at + 62_000, events: 602 })
  t.same(points, [
    { at: at + 60_000, perSecond: null },
    { at: at + 62_000, perSecond: 1 },
  ])
})

t.test('a failure is a gap until there are two samples again', async (t) => {
  const before = historyOf({ at, events: 0 }, { at: at + 2_000, events: 2 })
  const failed = addGap(addGap(before, at + 3_000), at + 4_000)
  const after = [
    { at: at + 5_000, events: 90 },
    { at: at + 7_000, events: 94 },
  ].reduce(addSample, failed)
  t.same(after.points, [
    { at: at + 2_000, perSecond: 1 },
    { at: at + 3_000, perSecond: null },
    { at: at + 7_000, perSecond: 2 },
  ])
})

t.test('a counter that falls is a gap', async (t) => {
  const { points } = historyOf({ at, events: 500 }, { at: at + 2_000, events: 10 }, { at: at + 4_000, events: 14 })
  t.same(points, [
    { at: at + 2_000, perSecond: null },
    { at: at + 4_000, perSecond: 2 },
  ])
})

t.test('samples close to each other are one', async (t) => {
  const { points } = historyOf({ at, events: 0 }, { at: at + 20, events: 40 }, { at: at + 2_000, events: 60 })
  t.same(points, [{ at: at + 2_000, perSecond: 30 }])
})

t.test('a clock that is set back starts the history over', async (t) => {
  const { points } = historyOf({ at, events: 0 }, { at: at + 2_000, events: 2 }, { at: at - 60_000, events: 4 })
  t.same(points, [])
})

t.test('ten minutes are kept', async (t) => {
  const samples = Array.from({ length: 1_000 }, (_, index) => ({ at: at + index * 2_000, events: index }))
  const { points } = historyOf(...samples)
  t.equal(points.length, historyMs / 2_000)
  t.equal(points.at(-1)?.at, at + 999 * 2_000)
})

t.test('a summary leaves gaps out', async (t) => {
  const events = [0, 20, 60, 0, 30]
  const history = historyOf(...events.map((count, index) => ({ at: at + index * 2_000, events: count })))
  t.same(summarizeRates(history), { last: 15, mean: 15, peak: { at: at + 4_000, perSecond: 20 } })
})

t.test('rates by minute of the clock', async (t) => {
  const minute = Math.ceil(at / minuteMs) * minuteMs
  const history = historyOf(
    { at: minute - 4_000, events: 0 },
    { at: minute - 2_000, events: 2 },
    { at: minute, events: 10 },
    { at: minute + 2_000, events: 30 },
  )
  t.same(ratesByMinute(history), [
    { at: minute - minuteMs, mean: 1, peak: 1 },
    { at: minute, mean: 7, peak: 10 },
  ])
})
