import t from 'tap'
import { fillMinutes, minuteMs, totalsOf } from '../../../page/views/now/minutes.ts'

const now = 29_916_667 * minuteMs

t.test('minutes that the server leaves out had no events, unless it did not count yet', async (t) => {
  const iso = (minutesAgo: number) => new Date(now - minutesAgo * minuteMs).toISOString()
  const minutes = fillMinutes(
    {
      since: new Date(now - 2.5 * minuteMs).toISOString(),
      servers: 1,
      minutes: [
        { at: iso(2), accepted: 5, duplicates: 1, rejected: 2 },
        { at: iso(0), accepted: 7, duplicates: 0, rejected: 1 },
      ],
    },
    now + 1_000,
  )
  t.equal(minutes.length, 60)
  t.same(minutes.slice(-5), [
    { at: now - 4 * minuteMs, counts: null },
    { at: now - 3 * minuteMs, counts: { accepted: 0, duplicates: 0, rejected: 0 } },
    { at: now - 2 * minuteMs, counts: { accepted: 5, duplicates: 1, rejected: 2 } },
    { at: now - 1 * minuteMs, counts: { accepted: 0, duplicates: 0, rejected: 0 } },
    { at: now, counts: { accepted: 7, duplicates: 0, rejected: 1 } },
  ])
  t.same(totalsOf(minutes), { accepted: 12, duplicates: 1, rejected: 3 })
})

t.test('the minutes end with those of a server whose clock is ahead', async (t) => {
  const ahead = { at: new Date(now + 2 * minuteMs).toISOString(), accepted: 1, duplicates: 0, rejected: 0 }
  const minutes = fillMinutes({ since: new Date(now).toISOString(), servers: 1, minutes: [ahead] }, now)
  t.equal(minutes.at(-1)?.at, now + 2 * minuteMs)
})
