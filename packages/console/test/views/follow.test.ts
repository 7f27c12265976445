import { createIngest, openMemoryStore } from '@ingest/core'
import { toFetchHandler } from '@ingest/server'
import t, { type Test } from 'tap'
import type { Query } from '../../page/api/api.ts'
import { type EventLine, parseEventLine } from '../../page/api/event-lines.ts'
import { toRequestError } from '../../page/api/request-error.ts'
import { burstMax, createFollower } from '../../page/views/live/follow.ts'
import { createHeldEvents, eventsHeldMax, filterEvents, toHeldEvent } from '../../page/views/live/held-events.ts'

const projectId = 'game-1'
const hour = 3_600_000

/** A follower of a real service, whose clock is set by the test. Requests do not wait for events. */
async function openFollower(t: Test) {
  const clock = { at: Date.UTC(2026, 10, 20) }
  const open = () => {
    const ingest = createIngest({ store: openMemoryStore(), now: () => clock.at, authenticate: async () => true })
    t.teardown(() => ingest.close())
    return { project: ingest.project(projectId), handle: toFetchHandler(ingest) }
  }
  let service = open()
  const queries: string[] = []
  const shown: string[] = []
  const signal = new AbortController().signal

  async function request(path: string, query: Query): Promise<string> {
    const url = new URL(path, 'http://ingest')
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value))
    const response = await service.handle(
      new Request(url, { headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': 'k' } }),
    )
    if (!response.ok) throw await toRequestError(response)
    return response.text()
  }
  const follower = createFollower({
    async read({ wait, ...query }) {
      queries.push(JSON.stringify(query))
      return (await request('/v1/events', query)).split('\n').slice(0, -1).map(parseEventLine)
    },
    stats: async () => JSON.parse(await request('/v1/stats', {})),
    async onEvents(events: EventLine[], isAfterGap) {
      if (isAfterGap) shown.push('gap')
      shown.push(...events.map(({ text = '{}' }) => JSON.parse(text).eventId))
    },
    now: () => clock.at,
  })
  return {
    follower,
    clock,
    queries,
    step: () => follower.step(signal),
    replaceStore() {
      service = open()
    },
    /** The ids that were shown since the last call. */
    takeShown: () => shown.splice(0),
    async store(prefix: string, count: number) {
      for (let first = 0; first < count; first += 100) {
        const length = Math.min(100, count - first)
        const events = Array.from({ length }, (_, index) => ({ projectId, eventId: `${prefix}${first + index}` }))
        await service.project.submitBatch({ events })
      }
    },
  }
}

const ids = (prefix: string, first: number, end: number) =>
  Array.from({ length: end - first }, (_, index) => `${prefix}${first + index}`)

t.test('an empty project is followed from its first event on', async (t) => {
  const { step, store, takeShown } = await openFollower(t)
  await step()
  await store('a', 3)
  await step()
  t.strictSame(takeShown(), ids('a', 0, 3))
})

t.test('it begins with the newest events, however old they are, and continues without a gap', async (t) => {
  const { step, store, takeShown, clock, queries } = await openFollower(t)
  await store('old', 2_000)
  clock.at += 30 * hour
  await store('new', 20)
  clock.at += 1_000 * hour
  await step()
  t.strictSame(takeShown(), ids('new', 0, 20), 'the two thousand before are more than one response shows')
  t.ok(queries.length < 10)
  await store('next', 2)
  await step()
  t.strictSame(takeShown(), ids('next', 0, 2))
})

t.test('few events are all shown, whenever they were stored', async (t) => {
  const { step, store, takeShown, clock } = await openFollower(t)
  await store('a', 10)
  clock.at += 10_000 * hour
  await store('b', 10)
  await step()
  t.strictSame(takeShown(), [...ids('a', 0, 10), ...ids('b', 0, 10)])
})

t.test('a burst is shown as a whole', async (t) => {
  const { follower, step, store, takeShown } = await openFollower(t)
  await store('a', 1)
  await step()
  await store('b', burstMax)
  for (let steps = 0; steps < 6; steps++) await step()
  t.strictSame(takeShown(), ['a0', ...ids('b', 0, burstMax)])
  t.notOk(follower.isSampled())
})

t.test('behind more events than it can show, it continues at the end', async (t) => {
  const { follower, step, store, takeShown, clock } = await openFollower(t)
  await store('a', 1)
  await step()
  await store('b', 3_000)
  for (let steps = 0; steps < 3; steps++) await step()
  const shown = takeShown()
  t.strictSame(shown, ['a0', ...ids('b', 0, 1_000)])
  t.notOk(shown.includes('gap'), 'no event shows yet where some were left out')
  t.ok(follower.isSampled())
  t.ok(follower.isAfterGap())
  clock.at += 500
  await store('c', 5)
  await step()
  t.strictSame(takeShown(), ['gap', ...ids('c', 0, 5)])
  t.ok(follower.isSampled(), 'for some seconds')
  clock.at += 10_000
  t.notOk(follower.isSampled())
  t.notOk(follower.isAfterGap())
})

t.test('two requests a second at most', async (t) => {
  const { step, clock } = await openFollower(t)
  t.equal(await step(), 500)
  const before = clock.at
  const stepped = step()
  clock.at = before + 120
  t.equal(await stepped, 380)
})

t.test('the rate is that of the last ten seconds', async (t) => {
  const { follower, step, store, clock } = await openFollower(t)
  await step()
  clock.at += 9_000
  await store('a', 40)
  await step()
  t.equal(follower.receivedPerSecond(), undefined, 'not yet known')
  clock.at += 2_000
  t.equal(follower.receivedPerSecond(), 4)
  clock.at += 9_000
  t.equal(follower.receivedPerSecond(), 0)
})

t.test('of large events, responses hold fewer', async (t) => {
  const limits: unknown[] = []
  const text = JSON.stringify({ eventId: 'a', filler: 'x'.repeat(100_000) })
  const follower = createFollower({
    async read({ limit }) {
      limits.push(limit)
      return [{ cursor: 'c', receivedAt: 1, text }]
    },
    stats: async () => ({ events: 1, lastAt: new Date(1).toISOString() }),
    onEvents: async () => {},
  })
  for (let steps = 0; steps < 2; steps++) await follower.step(new AbortController().signal)
  t.strictSame(limits, [100, 41])
})

t.test('a refused cursor: it begins again with the newest events', async (t) => {
  const { follower, step, store, takeShown, replaceStore } = await openFollower(t)
  await store('a', 3)
  await step()
  takeShown()
  t.equal(follower.cursorRefusedAt(), undefined)
  replaceStore()
  await store('b', 2)
  await step()
  t.ok(follower.cursorRefusedAt())
  await step()
  t.strictSame(takeShown(), ['gap', ...ids('b', 0, 2)])
})

let cursors = 0
const held = (event: object) => toHeldEvent({ cursor: `c${cursors++}`, receivedAt: 1, text: JSON.stringify(event) })

t.test('the last thousand events are held, and the names of all that arrived', async (t) => {
  const events = createHeldEvents()
  events.add([held({ eventId: 'first', type: 'old', buildId: 'b1' })])
  events.add(Array.from({ length: eventsHeldMax + 5 }, (_, i) => held({ eventId: `e${i}`, type: 'new' })))
  t.equal(events.events.length, eventsHeldMax)
  t.equal(events.events[0]?.eventId, 'e5')
  t.equal(events.events.at(-1)?.eventId, `e${eventsHeldMax + 4}`)
  t.strictSame([...events.types], ['old', 'new'])
  t.strictSame([...events.buildIds], ['b1', ''])
})

t.test('fewer large events are held', async (t) => {
  const events = createHeldEvents()
  for (let i = 0; i < 50; i++) events.add([held({ eventId: `e${i}`, filler: 'x'.repeat(200_000) })])
  t.equal(events.events.length, 20)
  t.equal(events.events.at(-1)?.eventId, 'e49')
})

t.test('filters match together, newest first', async (t) => {
  const events = [
    held({ eventId: '1', type: 'shot', buildId: 'b1', note: 'Hello (x)' }),
    held({ eventId: '2', type: 'shot', buildId: 'b2' }),
    held({ eventId: '3', type: null }),
    held({ eventId: '4', type: 'shot', buildId: 'b1', note: 'HELLO' }),
  ]
  const find = (filter: object) => filterEvents(events, { text: '', ...filter }).map(({ eventId }) => eventId)
  t.strictSame(find({}), ['4', '3', '2', '1'])
  t.strictSame(find({ type: 'shot' }), ['4', '2', '1'])
  t.strictSame(find({ type: '' }), ['3'], 'events without a type')
  t.strictSame(find({ type: 'shot', buildId: 'b1' }), ['4', '1'])
  t.strictSame(find({ text: 'hello' }), ['4', '1'], 'whatever the case')
  t.strictSame(find({ text: '(x)' }), ['1'], 'not a pattern')
  t.strictSame(find({ text: 'b.' }), [])
})
