import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { type CutRules, cutEvents, type Period } from '../src/cut-events.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Noon of a day. */
const noon = Date.UTC(2026, 10, 20, 12)

interface Event {
  receivedAt: number
  bytes: number
}

const bytesOf = ({ bytes }: Event) => bytes

function event(receivedAt: number, bytes = 10): Event {
  return { receivedAt, bytes }
}

async function* from<E>(events: readonly E[], failure?: Error) {
  yield* events
  if (failure) throw failure
}

async function partsOf(
  source: AsyncIterable<Event>,
  rules: Omit<CutRules<Event>, 'now' | 'bytesOf'>,
): Promise<Event[][]> {
  const parts: Event[][] = []
  for await (const { first, events } of cutEvents(source, { ...rules, bytesOf, now: noon })) {
    const part: Event[] = []
    parts.push(part)
    for await (const event of events) part.push(event)
    if (part[0] !== first) throw new Error('the first event is another one')
  }
  return parts
}

const sizeOf = (events: readonly Event[]) => events.reduce((sum, { bytes }) => sum + bytes, 0)

t.test('parts are in order and as large as allowed', async () => {
  const events = fc.array(
    fc.record({
      receivedAt: fc.integer({ min: noon - 3 * dayMs, max: noon - dayMs }),
      bytes: fc.integer({ min: 1, max: 50 }),
    }),
    { maxLength: 60 },
  )
  const periods = fc.constantFrom<Period | undefined>(undefined, 'hour', 'day')
  await fc.assert(
    fc.asyncProperty(events, fc.integer({ min: 1, max: 120 }), periods, async (rows, bytesMax, every) => {
      const all = rows.map(({ receivedAt, bytes }) => event(receivedAt, bytes))
      const parts = await partsOf(from(all), { bytesMax, ...(every && { every }) })
      const periodMs = { hour: hourMs, day: dayMs }[every ?? 'hour']
      const periodOf = ({ receivedAt }: Event) => (every ? Math.floor(receivedAt / periodMs) : 0)
      const flat = parts.flat()
      const isAll = flat.length === all.length && flat.every((each, i) => each === all[i])
      if (!isAll) throw new Error('an event is missing, twice, or out of order')
      for (const [i, part] of parts.entries()) {
        if (part.length === 0) throw new Error('a part is empty')
        if (part.length > 1 && sizeOf(part) > bytesMax) throw new Error('a part is too large')
        if (new Set(part.map(periodOf)).size !== 1) throw new Error('a part is of two periods')
        const next = parts[i + 1]?.[0]
        const fits = next && periodOf(next) === periodOf(part[0] as Event) && sizeOf([...part, next]) <= bytesMax
        if (fits) throw new Error('a part ends too early')
      }
    }),
  )
})

t.test('the current hour and the next one are left out', async (t) => {
  const cases: [Period | undefined, number, number][] = [
    ['hour', noon - 1, 1],
    ['hour', noon, 0],
    ['hour', noon + 2 * hourMs - 1, 0],
    // received while a clock was wrong
    ['hour', noon + 2 * hourMs, 1],
    ['day', noon - 12 * hourMs - 1, 1],
    ['day', noon - 12 * hourMs, 0],
    ['day', noon + 36 * hourMs - 1, 0],
    ['day', noon + 36 * hourMs, 1],
    [undefined, noon, 1],
  ]
  for (const [every, receivedAt, count] of cases) {
    const parts = await partsOf(from([event(receivedAt)]), { bytesMax: 100, ...(every && { every }) })
    t.equal(parts.flat().length, count, `${every} ${new Date(receivedAt).toISOString()}`)
  }
})

t.test('events are cut at each hour, while the current day or nothing is left out', async (t) => {
  const events = [-14, -12.5, -12.2, -1, 0, 0.5, 1].map((hours) => event(noon + hours * hourMs))
  const counts = async (every?: Period) => {
    const parts = await partsOf(from(events), { bytesMax: 100, hourly: true, ...(every && { every }) })
    return parts.map((part) => part.length)
  }
  t.strictSame(await counts(), [1, 2, 1, 2, 1])
  t.strictSame(await counts('hour'), [1, 2, 1])
  t.strictSame(await counts('day'), [1, 2])
})

t.test('no event after an omitted one is exported', async (t) => {
  const events = [event(noon - hourMs), event(noon), event(noon - 1)]
  t.strictSame(await partsOf(from(events), { bytesMax: 100, every: 'hour' }), [[events[0]]])
})

t.test('an error is thrown after the events before it', async (t) => {
  const events = [1, 2, 3].map((receivedAt) => event(receivedAt))
  for (const count of [0, 1, 2, 3]) {
    const failure = new Error('damaged')
    const seen: Event[][] = []
    const reading = (async () => {
      const cut = cutEvents(from(events.slice(0, count), failure), { bytesMax: 20, bytesOf, now: noon })
      for await (const part of cut) seen.push(await Readable.from(part.events).toArray())
    })()
    await t.rejects(reading, failure)
    t.strictSame(seen.flat(), events.slice(0, count))
  }
})

t.test('a source is closed', async (t) => {
  let isClosed = false
  async function* source() {
    try {
      for (;;) yield event(1)
    } finally {
      isClosed = true
    }
  }
  for await (const part of cutEvents(source(), { bytesMax: 20, bytesOf, now: noon })) {
    t.equal((await Readable.from(part.events).toArray()).length, 2)
    break
  }
  t.ok(isClosed)
})
