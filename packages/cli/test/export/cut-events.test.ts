import { Readable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { type CutRules, cutEvents, type EventLine, type Period } from '../../src/export/cut-events.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Noon of a day. */
const now = Date.UTC(2026, 10, 20, 12)

function event(receivedAt: number, bytes = 10): EventLine {
  return { receivedAt, line: Buffer.alloc(bytes) }
}

async function* from(events: readonly EventLine[], failure?: Error) {
  yield* events
  if (failure) throw failure
}

async function partsOf(source: AsyncIterable<EventLine>, rules: Omit<CutRules, 'now'>): Promise<EventLine[][]> {
  const parts: EventLine[][] = []
  for await (const { first, events } of cutEvents(source, { ...rules, now })) {
    const part: EventLine[] = []
    parts.push(part)
    for await (const event of events) part.push(event)
    if (part[0] !== first) throw new Error('the first event is another one')
  }
  return parts
}

const sizeOf = (events: readonly EventLine[]) => events.reduce((sum, { line }) => sum + line.length, 0)

t.test('parts are in order and as large as allowed', async () => {
  const events = fc.array(
    fc.record({
      receivedAt: fc.integer({ min: now - 3 * dayMs, max: now - dayMs }),
      bytes: fc.integer({ min: 1, max: 50 }),
    }),
    { maxLength: 60 },
  )
  const periods = fc.constantFrom<Period | undefined>(undefined, 'hour', 'day')
  await fc.assert(
    fc.asyncProperty(events, fc.integer({ min: 1, max: 120 }), periods, async (rows, lineBytesMax, every) => {
      const all = rows.map(({ receivedAt, bytes }) => event(receivedAt, bytes))
      const parts = await partsOf(from(all), { lineBytesMax, ...(every && { every }) })
      const periodMs = { hour: hourMs, day: dayMs }[every ?? 'hour']
      const periodOf = ({ receivedAt }: EventLine) => (every ? Math.floor(receivedAt / periodMs) : 0)
      const flat = parts.flat()
      const isAll = flat.length === all.length && flat.every((each, i) => each === all[i])
      if (!isAll) throw new Error('an event is missing, twice, or out of order')
      for (const [i, part] of parts.entries()) {
        if (part.length === 0) throw new Error('a part is empty')
        if (part.length > 1 && sizeOf(part) > lineBytesMax) throw new Error('a part is too large')
        if (new Set(part.map(periodOf)).size !== 1) throw new Error('a part is of two periods')
        const next = parts[i + 1]?.[0]
        const fits =
          next && periodOf(next) === periodOf(part[0] as EventLine) && sizeOf([...part, next]) <= lineBytesMax
        if (fits) throw new Error('a part ends too early')
      }
    }),
  )
})

t.test('the current hour and the next one are left out', async (t) => {
  const cases: [Period | undefined, number, number][] = [
    ['hour', now - 1, 1],
    ['hour', now, 0],
    ['hour', now + 2 * hourMs - 1, 0],
    // received while a clock was wrong
    ['hour', now + 2 * hourMs, 1],
    ['day', now - 12 * hourMs - 1, 1],
    ['day', now - 12 * hourMs, 0],
    ['day', now + 36 * hourMs - 1, 0],
    ['day', now + 36 * hourMs, 1],
    [undefined, now, 1],
  ]
  for (const [every, receivedAt, count] of cases) {
    const parts = await partsOf(from([event(receivedAt)]), { lineBytesMax: 100, ...(every && { every }) })
    t.equal(parts.flat().length, count, `${every} ${new Date(receivedAt).toISOString()}`)
  }
})

t.test('no event after an omitted one is exported', async (t) => {
  const events = [event(now - hourMs), event(now), event(now - 1)]
  t.strictSame(await partsOf(from(events), { lineBytesMax: 100, every: 'hour' }), [[events[0]]])
})

t.test('an error is thrown after the events before it', async (t) => {
  const events = [1, 2, 3].map((receivedAt) => event(receivedAt))
  for (const count of [0, 1, 2, 3]) {
    const failure = new Error('damaged')
    const seen: EventLine[][] = []
    const reading = (async () => {
      const cut = cutEvents(from(events.slice(0, count), failure), { lineBytesMax: 20, now })
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
  for await (const part of cutEvents(source(), { lineBytesMax: 20, now })) {
    t.equal((await Readable.from(part.events).toArray()).length, 2)
    break
  }
  t.ok(isClosed)
})
