import t from 'tap'
import { createEventIds } from '../../src/import/event-ids.ts'

const uuidv7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const timeOf = (id: string) => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)

t.test('an id is a UUID of version 7, of now', async (t) => {
  const before = Date.now()
  const id = createEventIds()()
  t.match(id, uuidv7)
  t.ok(timeOf(id) >= before && timeOf(id) <= Date.now())
})

t.test('ids of one millisecond are distinct and sort as they were made, however many there are', async (t) => {
  const makeEventId = createEventIds(() => 1_763_000_000_000.75)
  const ids = Array.from({ length: 10_000 }, makeEventId)
  t.ok(ids.every((id) => uuidv7.test(id)))
  t.strictSame(ids, [...new Set(ids)].sort())
  t.equal(timeOf(ids[0] ?? ''), 1_763_000_000_000)
  t.equal(timeOf(ids[2000] ?? ''), 1_763_000_000_000)
})

t.test('a clock that steps back does not take ids back, and a later one is followed again', async (t) => {
  const times = [5000, 4000, 4999, 5000, 6000]
  const makeEventId = createEventIds(() => times.shift() ?? 0)
  const ids = Array.from({ length: 5 }, makeEventId)
  t.strictSame(ids, [...ids].sort())
  t.strictSame(ids.map(timeOf), [5000, 5000, 5000, 5000, 6000])
})

t.test('two makers do not make the same ids', async (t) => {
  const [one, other] = [createEventIds(() => 1), createEventIds(() => 1)]
  t.equal(new Set(Array.from({ length: 1000 }, () => [one(), other()]).flat()).size, 2000)
})
