import t from 'tap'
import { BatchResult, fromWire, MapPage, RecentRejections, Stats, toWire } from '../src/wire.ts'

const at = Date.UTC(2026, 10, 20, 17, 51, 0, 25)
const time = '2026-11-20T17:51:00.025Z'

t.test('times are RFC 3339 in bodies and milliseconds in values, at any depth; null stays null', async (t) => {
  const contents = { digest: 'd', size: 1, contentType: 'c', chunks: 1, missing: ['d'] }
  const map = { placeId: time, buildId: 'b', state: 'complete', ...contents, frozen: true } as const
  const pageOf = <Time>(published: Time) => ({
    maps: [
      { ...map, publishedAt: published, frozenAt: null, pending: contents },
      { ...map, publishedAt: null, frozenAt: published, pending: null },
    ],
    next: null,
  })
  t.strictSame(toWire(MapPage, pageOf(at)), pageOf(time))
  t.strictSame(fromWire(MapPage, pageOf(time)), pageOf(at))
  const issue = { code: 'required', path: time, message: time } as const
  const rejectionsOf = <Time>(received: Time) => ({
    since: received,
    total: 1,
    groups: [{ ...issue, count: 1, lastAt: received }],
    rejected: [{ receivedAt: received, index: 0, eventId: null, issues: [issue], event: time, further: 1 }],
  })
  t.strictSame(toWire(RecentRejections, rejectionsOf(at)), rejectionsOf(time))
  t.strictSame(fromWire(RecentRejections, rejectionsOf(time)), rejectionsOf(at))
})

t.test('missing members stay missing, and the value itself is not changed', async (t) => {
  const stats = { events: 1, firstAt: time }
  t.strictSame(fromWire(Stats, stats), { events: 1, firstAt: at })
  t.strictSame(stats, { events: 1, firstAt: time })
})

t.test('a body without times is returned as it is', async (t) => {
  const result = { accepted: 1, duplicates: 0, rejected: [] }
  t.equal(toWire(BatchResult, result), result)
  t.equal(fromWire(BatchResult, result), result)
})
