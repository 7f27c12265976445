import { createIngest, openMemoryStore } from '@ingest/core'
import { filterNames as serverFilterNames } from '@ingest/core/internal'
import { toFetchHandler } from '@ingest/server'
import t, { type Test } from 'tap'
import type { Query } from '../../page/api/api.ts'
import { type EventLine, parseEventLine } from '../../page/api/event-lines.ts'
import { toRequestError } from '../../page/api/ingest-response.ts'
import { filterMembers } from '../../page/event-filter.ts'
import { burstMax, createFollower } from '../../page/views/live/follow.ts'
import {
  createHeldEvents,
  createSeenValues,
  eventsHeldMax,
  eventsWith,
  toHeldEvent,
} from '../../page/views/live/held-events.ts'
import { createHistory, type History } from '../../page/views/live/history.ts'

const projectId = 'game-1'
const hour = 3_600_000
const start = Date.UTC(2020, 10, 20)

/** A follower of a real service, whose clock is set by the test. Requests do not wait for events. */
async function openFollower(t: Test, { filter = {}, beginAt }: { filter?: Query; beginAt?: number } = {}) {
  // a store does not accept times in the future
  const clock = { at: start }
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
  async function read({ wait, ...query }: Query): Promise<EventLine[]> {
    queries.push(JSON.stringify(query))
    return (await request('/v1/events', { ...filter, ...query })).split('\n').slice(0, -1).map(parseEventLine)
  }
  function show(events: EventLine[], isAfterGap: boolean): void {
    if (isAfterGap) shown.push('gap')
    shown.push(...events.map(({ text = '{}' }) => JSON.parse(text).eventId))
  }
  const follower = createFollower({
    read,
    beginAt,
    stats: async () => JSON.parse(await request('/v1/stats', {})),
    onEvents: async (events, isAfterGap) => show(events, isAfterGap),
    now: () => clock.at,
  })
  return {
    follower,
    clock,
    queries,
    step: () => follower.step(signal),
    /** The events before the beginning. */
    openHistory(): History {
      const beginning = follower.beginning()
      if (!beginning) throw new Error('The follower has not begun.')
      return createHistory(beginning, read, show)
    },
    async runHistory(history: History) {
      while ((await history.step(signal)) === 0);
    },
    replaceStore() {
      service = open()
    },
    /** The ids that were shown since the last call. */
    takeShown: () => shown.splice(0),
    async store(prefix: string, count: number, members: object = {}) {
      for (let first = 0; first < count; first += 100) {
        const length = Math.min(100, count - first)
        const events = Array.from({ length }, (_, index) => ({
          ...members,
          projectId,
          eventId: `${prefix}${first + index}`,
        }))
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

t.test('the follower begins with the newest events, however old they are, and continues without a gap', async (t) => {
  const { step, store, takeShown, clock, queries } = await openFollower(t)
  await store('old', 2_000)
  clock.at += 30 * hour
  await store('new', 20)
  clock.at += 1_000 * hour
  await step()
  t.strictSame(takeShown(), ids('new', 0, 20))
  t.equal(queries.length, 1)
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

t.test('a follower that falls behind skips to the end', async (t) => {
  const { follower, step, store, takeShown, clock } = await openFollower(t)
  await store('a', 1)
  await step()
  await store('b', 3_000)
  for (let steps = 0; steps < 3; steps++) await step()
  const shown = takeShown()
  t.strictSame(shown, ['a0', ...ids('b', 0, 1_000)])
  t.notOk(shown.includes('gap'), 'there is no later event yet to mark the gap')
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

t.test('there are at most two requests a second', async (t) => {
  const { step, clock } = await openFollower(t)
  t.equal(await step(), 0, 'the first one finds the end')
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
  clock.at += hour
  await store('b', 50)
  await step()
  t.equal(follower.receivedPerSecond(), undefined, 'unknown after a pause, in which events were not read')
})

t.test('responses hold fewer large events', async (t) => {
  const limits: unknown[] = []
  const text = JSON.stringify({ eventId: 'a', filler: 'x'.repeat(100_000) })
  const follower = createFollower({
    async read({ limit }) {
      limits.push(limit)
      return [{ cursor: 'c', receivedAt: 1, text }]
    },
    stats: async () => ({ events: 1, firstAt: new Date(1).toISOString(), lastAt: new Date(1).toISOString() }),
    onEvents: async () => {},
  })
  for (let steps = 0; steps < 2; steps++) await follower.step(new AbortController().signal)
  t.strictSame(limits, [100, 41])
})

t.test('after a refused cursor, the follower restarts with the newest events', async (t) => {
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

t.test('with a filter, only matching events are shown, before and after the beginning', async (t) => {
  const { step, store, takeShown } = await openFollower(t, { filter: { playerId: '7' } })
  await store('a', 3, { playerId: 7 })
  await store('b', 3, { playerId: 8 })
  await step()
  t.strictSame(takeShown(), ids('a', 0, 3))
  await store('c', 2, { playerId: 8 })
  await store('d', 2, { playerId: '7' })
  await step()
  t.strictSame(takeShown(), ids('d', 0, 2))
})

t.test('earlier events are found in spans, back to the first event', async (t) => {
  const { step, store, takeShown, clock, openHistory, runHistory, queries } = await openFollower(t)
  await store('old', 40)
  clock.at += 500 * hour
  await store('b', 60)
  clock.at += hour
  await store('c', 5)
  await step()
  takeShown()
  const history = openHistory()
  t.notOk(history.isComplete())
  await runHistory(history)
  t.strictSame(takeShown(), [...ids('b', 0, 60), ...ids('old', 0, 40)])
  t.ok(history.isComplete())
  t.ok(queries.length < 25)
})

t.test('a search ends when it has found enough, and says how far back it got', async (t) => {
  const { step, store, takeShown, clock, openHistory, runHistory } = await openFollower(t, { filter: { type: 'shot' } })
  const times: number[] = []
  for (const [prefix, hours] of [
    ['a', 2_000],
    ['b', 300],
    ['c', 1],
  ] as const) {
    times.push(clock.at)
    await store(prefix, 120, { type: 'shot' })
    await store(`${prefix}-other`, 300, { type: 'chat' })
    clock.at += hours * hour
  }
  await store('d', 1)
  await step()
  const history = openHistory()
  await runHistory(history)
  t.strictSame(takeShown(), ids('c', 0, 120))
  t.ok(history.searchedFrom() <= (times[2] as number) && history.searchedFrom() > (times[1] as number))
  await runHistory(history)
  t.strictSame(takeShown(), ids('b', 0, 120))
  await runHistory(history)
  t.strictSame(takeShown(), ids('a', 0, 120))
  t.ok(history.isComplete())
})

t.test('if a span has more events than are held, the newest are shown after a gap', async (t) => {
  const { step, store, takeShown, clock, openHistory, runHistory } = await openFollower(t)
  await store('a', 1_500)
  const { at } = clock
  clock.at += hour
  await store('b', 1)
  await step()
  takeShown()
  const history = openHistory()
  await runHistory(history)
  t.strictSame(takeShown(), ['gap', ...ids('a', 500, 1_500)])
  t.equal(history.searchedFrom(), at)
})

t.test('the follower can begin with the events of a time, and continues after them', async (t) => {
  const { step, store, takeShown, clock } = await openFollower(t, { beginAt: start + hour })
  await store('a', 100)
  for (const prefix of ['b', 'c']) {
    clock.at += hour
    await store(prefix, 3)
  }
  await step()
  t.strictSame(takeShown(), ids('b', 0, 3))
  await step()
  t.strictSame(takeShown(), ids('c', 0, 3))
})

let cursors = 0
const held = (event: object, seen = createSeenValues()) =>
  toHeldEvent({ cursor: `c${cursors++}`, receivedAt: 1, text: JSON.stringify(event) }, seen)

t.test('the newest thousand events are held', async (t) => {
  const events = createHeldEvents()
  events.add([held({ eventId: 'first' })])
  t.notOk(events.isFull)
  events.add(Array.from({ length: eventsHeldMax + 5 }, (_, i) => held({ eventId: `e${i}` })))
  t.equal(events.events.length, eventsHeldMax)
  t.equal(events.events[0]?.eventId, 'e5')
  t.equal(events.events.at(-1)?.eventId, `e${eventsHeldMax + 4}`)
  t.ok(events.isFull)
  events.addEarlier([held({ eventId: 'earlier' })])
  t.equal(events.events[0]?.eventId, 'e5')
})

t.test('fewer large events are held', async (t) => {
  const events = createHeldEvents()
  for (let i = 0; i < 50; i++) events.add([held({ eventId: `e${i}`, filler: 'x'.repeat(200_000) })])
  t.equal(events.events.length, 20)
  t.equal(events.events.at(-1)?.eventId, 'e49')
})

t.test('events that arrive while the list is held are counted, and added later', async (t) => {
  const events = createHeldEvents()
  const list = () => events.events.map(({ eventId, isAfterGap }) => (isAfterGap ? `gap ${eventId}` : eventId))
  events.add([held({ eventId: 'a' })])
  events.hold()
  events.add([held({ eventId: 'b' }), held({ eventId: 'c' })])
  events.addEarlier([held({ eventId: 'earlier' })])
  t.strictSame(list(), ['earlier', 'a'])
  t.equal(events.newerCount, 2)
  events.release()
  t.strictSame(list(), ['earlier', 'a', 'b', 'c'])
  t.equal(events.newerCount, 0)
  events.hold()
  events.add(Array.from({ length: eventsHeldMax + 5 }, (_, i) => held({ eventId: `d${i}` })))
  t.equal(events.newerCount, eventsHeldMax + 5)
  events.release()
  t.equal(list()[0], 'gap d5', 'some between were dropped')
  events.hold()
  events.add([held({ eventId: 'e' })])
  t.notOk(events.isNewerCut)
  events.add([{ ...held({ eventId: 'f' }), isAfterGap: true }])
  events.add([held({ eventId: 'g' })])
  t.ok(events.isNewerCut, 'some were skipped')
  events.release()
  t.notOk(events.isNewerCut)
})

t.test('a text is found anywhere in an event, newest first', async (t) => {
  const events = [
    held({ eventId: '1', note: 'Hello (x)' }),
    held({ eventId: '2', buildId: 'b2' }),
    held({ eventId: '4', note: 'HELLO' }),
  ]
  const find = (text: string) => eventsWith(text, events).map(({ eventId }) => eventId)
  t.strictSame(find(''), ['4', '2', '1'])
  t.strictSame(find('hello'), ['4', '1'], 'whatever the case')
  t.strictSame(find('(x)'), ['1'], 'not a pattern')
  t.strictSame(find('b.'), [])
})

t.test('the suggested values are those that the server can filter by', async (t) => {
  const seen = createSeenValues()
  const values = { type: 'shot', playerId: 7, sessionId: '', placeId: null, serverId: 1.5, buildId: 'b1' }
  held({ eventId: 'a', ...values }, seen)
  const lists = Object.entries(seen).map(([name, values]) => [name, [...values]])
  t.strictSame(Object.fromEntries(lists), {
    type: ['shot'],
    build: ['b1'],
    player: ['7'],
    session: [],
    place: [],
    server: [],
  })
  t.strictSame(Object.values(filterMembers).sort(), [...serverFilterNames].sort())
})
