import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { batchOf, event } from '../../../checks/src/store/sample-events.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { applyRetention } from '../../src/retention.ts'
import type { ClockDoubt } from '../../src/store-types.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const events = [
  { projectId: 'p', eventId: 'text', playerId: '7' },
  { projectId: 'p', eventId: 'number', playerId: 7 },
  { projectId: 'p', eventId: 'other', playerId: '77', user: { id: 7, 'a/b': [1, { '~': true }] } },
  { projectId: 'p', eventId: 'nested', user: { id: '7', playerId: '7' } },
]

async function idsErasedBy(path: string, value: unknown, more: readonly string[] = []): Promise<string[]> {
  const store = openMemoryStore()
  const ingest = createIngest({ store })
  const texts = [...events.map((event) => JSON.stringify(event)), ...more]
  await ingest.project('p').submitBatch(Buffer.from(`{"events":[${texts.join()}]}`))
  const { events: count } = await ingest.eraseEvents('p', { path, value }, { dryRun: true })
  const erased = await ingest.eraseEvents('p', { path, value })
  t.equal(erased.events, count)
  const ids: string[] = []
  for await (const page of store.read('p', { erased: true }))
    for (const { erased } of page) if (erased) ids.push(erased)
  t.equal(ids.length, count)
  return ids
}

t.test('events are erased by a JSON Pointer and the value there', async (t) => {
  t.strictSame(await idsErasedBy('/playerId', '7'), ['text', 'number'], 'a player is the same as text and as number')
  t.strictSame(await idsErasedBy('/playerId', 7), ['text', 'number'])
  t.strictSame(await idsErasedBy('/user/id', 7), ['other', 'nested'], 'of any member')
  t.strictSame(await idsErasedBy('/user/id', '7'), ['other', 'nested'])
  t.strictSame(await idsErasedBy('/user/a~1b/1/~0', true), ['other'])
  t.strictSame(await idsErasedBy('/user/a~1b', [1, { '~': true }]), ['other'])
  t.strictSame(await idsErasedBy('/user/a~1b/length', 2), [])
  t.strictSame(await idsErasedBy('/eventId', 'nested'), ['nested'])
  t.strictSame(await idsErasedBy('/toString', '7'), [])
})

t.test('an event is erased by any of its members of one name, and by names and values with escapes', async (t) => {
  const store = openMemoryStore()
  const ingest = createIngest({ store })
  const bodies = [
    '"eventId":"first","playerId":"7","playerId":"8"',
    '"eventId":"last","playerId":"8","playerId":7',
    '"eventId":"nested","user":{"id":[1,"7"]},"user":{}',
    '"eventId":"escaped","pl\\u0061yerId":"\\u0037","user":{"\\u0069d":[0,"\\u0037"]}',
    '"eventId":"other","playerId":"8"',
  ]
  const events = bodies.map((body) => `{"projectId":"p",${body}}`)
  await ingest.project('p').submitBatch(Buffer.from(`{"events":[${events}]}`))
  t.equal((await ingest.eraseEvents('p', { path: '/playerId', value: '7' }, { dryRun: true })).events, 3)
  t.equal((await ingest.eraseEvents('p', { path: '/user/id/1', value: '7' })).events, 2)
  t.equal((await ingest.eraseEvents('p', { path: '/playerId', value: '7' })).events, 2)
  t.match(await ingest.project('p').findEvent('other'), { erased: undefined })
})

t.test('an erasure holds the ids of the events that it has found, not the events', async (t) => {
  const { read, ...store } = openMemoryStore()
  const seen: WeakRef<object>[] = []
  let heldMax = 0
  const ingest = createIngest({
    store: {
      ...store,
      // in another turn, after a garbage collection
      async *read(projectId, options) {
        for await (const page of read(projectId, options)) {
          yield page
          await nextTurn()
          collectGarbage()
          // `seen` has only the events of earlier pages
          heldMax = Math.max(heldMax, seen.filter((each) => each.deref()).length)
          seen.push(...page.map((event) => new WeakRef(event)))
        }
      },
    },
  })
  for (let batch = 0; batch < 8; batch++) {
    const events = Array.from({ length: 100 }, (_, i) => ({ projectId: 'p', eventId: `${batch}-${i}`, playerId: 7 }))
    await ingest.project('p').submitBatch({ events })
  }
  t.equal((await ingest.eraseEvents('p', { path: '/playerId', value: 7 })).events, 800)
  t.equal(seen.length, 800)
  t.ok(heldMax < 10, `${heldMax} events were held`)
})

t.test('an erasure keeps an event that is stored during the call, also in a page with earlier ones', async (t) => {
  const memory = openMemoryStore()
  async function* read(...args: Parameters<typeof memory.read>) {
    await memory.append('p', batchOf([event('later', { playerId: 7 })], { receivedAt: 2_000 }))
    yield* memory.read(...args)
  }
  const ingest = createIngest({ store: { ...memory, read } })
  await memory.append('p', batchOf([event('earlier', { playerId: 7 })], { receivedAt: 1_000 }))
  t.match(await ingest.eraseEvents('p', { path: '/playerId', value: 7 }), { events: 1 })
  t.match(await ingest.project('p').findEvent('later'), { erased: undefined })
})

t.test('an erasure that is aborted in the middle of a page rejects, and erases nothing more', async (t) => {
  const memory = openMemoryStore()
  async function* read(...args: Parameters<typeof memory.read>) {
    const events = []
    for await (const page of memory.read(...args)) events.push(...page)
    yield events
  }
  const ingest = createIngest({ store: { ...memory, read } })
  for (let batch = 0; batch < 12; batch++) {
    const events = Array.from({ length: 100 }, (_, i) => ({ projectId: 'p', eventId: `${batch}-${i}`, playerId: 7 }))
    await ingest.project('p').submitBatch({ events })
  }
  const controller = new AbortController()
  const { signal } = controller
  const erased: number[] = []
  const onProgress = ({ events }: { events: number }) => {
    erased.push(events)
    controller.abort(new RangeError('enough'))
  }
  await t.rejects(ingest.eraseEvents('p', { path: '/playerId', value: 7 }, { signal, onProgress }), RangeError)
  t.strictSame(erased, [500])
})

t.test('a value is found however its JSON is written', async (t) => {
  const more = [
    '{"projectId":"p","eventId":"exponent","playerId":1e1}',
    '{"projectId":"p","eventId":"escaped","playerId":"al\\u0069ce"}',
    '{"projectId":"p","eventId":"plain","playerId":"alice"}',
  ]
  t.strictSame(await idsErasedBy('/playerId', '10', more), ['exponent'])
  t.strictSame(await idsErasedBy('/playerId', 'alice', more), ['escaped', 'plain'])
  t.strictSame(await idsErasedBy('/playerId', 'ALICE', more), [])
})

t.test('a number is found by its digits, and no other number that equals it in JavaScript is', async (t) => {
  const ids = [
    '90071992547409931',
    '"90071992547409931"',
    '90071992547409932',
    '7.50',
    '"7.50"',
    ' -0 ',
    'true',
    '"true"',
    'null',
  ]
  const more = ids.map((id, i) => `{"projectId":"p","eventId":"${i}","account":{"id":${id}}}`)
  const find = (value: unknown) => idsErasedBy('/account/id', value, more)
  t.strictSame(await find('90071992547409931'), ['0', '1'])
  t.strictSame(await find(7.5), ['3'], 'a string has the same digits')
  t.strictSame(await find('7.50'), ['3', '4'])
  t.strictSame(await find(0), ['5'])
  t.strictSame([await find(''), await find(' ')], [[], []])
  t.strictSame([await find(true), await find('true')], [['6'], ['7']])
  t.strictSame([await find(null), await find('null')], [['8'], []])
})

t.test('a path that is not a JSON Pointer to a member is refused', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  for (const path of ['', 'playerId', '/a~2', '/~', 7 as unknown as string]) {
    await t.rejects(ingest.eraseEvents('p', { path, value: 1 }), { code: 'invalid-argument' }, String(path))
  }
  await t.rejects(ingest.retainEvents('p', Number.NaN), { code: 'invalid-argument' })
  await t.rejects(ingest.eraseEvents('/', { path: '/a', value: 1 }), { code: 'invalid-argument' })
})

t.test('a retry of an erased event is a duplicate, and retention counts what it erases', async (t) => {
  let time = 1_000
  const ingest = createIngest({ store: openMemoryStore(), now: () => time })
  const project = ingest.project('p')
  await project.submitBatch({ events: events.slice(0, 2) })
  time = 2_000
  await project.submitBatch({ events: events.slice(2) })
  t.equal((await ingest.retainEvents('p', 2_000, { dryRun: true })).events, 2)
  t.equal((await ingest.retainEvents('p', 2_000)).events, 2)
  t.match(await project.submitBatch({ events }), { accepted: 0, duplicates: 4 })
  t.equal(ingest.tally().conflicts, 0)
  t.match(await project.findEvent('text'), { erased: 'text' })
  const stopped = AbortSignal.abort(new Error('stopped'))
  await t.rejects(ingest.retainEvents('p', 9_000, { signal: stopped }), { message: 'stopped' })
})

const day = 86_400_000

t.test('a round erases the events that are older than the rule of their project', async (t) => {
  const now = Date.parse('2026-11-22T00:00:00Z')
  const ingest = createIngest({ store: openMemoryStore(), now: () => now - 10 * day })
  for (const projectId of ['off', 'short', 'others']) {
    await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  }
  const erased = new Map<string, number>()
  const rules = [
    ['short', 5 * day],
    ['off', 'off'],
    ['*', 9 * day],
  ] as const
  const { signal } = new AbortController()
  const onErased = ({ projectId, events }: { projectId: string; events: number }) =>
    void erased.set(projectId, (erased.get(projectId) ?? 0) + events)
  const round = () => applyRetention(ingest, rules, { onErased, signal, now })
  await round()
  t.equal((await ingest.project('off').findEvent('e-1'))?.erased, undefined)
  t.equal((await ingest.project('short').findEvent('e-1'))?.erased, 'e-1')
  // projects are erased several at a time, in no order
  const expected = { others: 1, short: 1 }
  t.strictSame(Object.fromEntries(erased), expected)
  await round()
  t.strictSame(Object.fromEntries(erased), expected, 'the next round finds nothing')
})

t.test('a round erases nothing by a clock that may be ahead, and reports the doubt once', async (t) => {
  const now = Date.parse('2026-11-22T00:00:00Z')
  const doubts: Record<string, ClockDoubt> = {
    gap: { message: 'may be ahead', mayBeAhead: true },
    future: { message: 'was ahead', mayBeAhead: false },
  }
  let doubt: ClockDoubt | undefined = doubts.gap
  const asked: number[] = []
  const store = {
    ...openMemoryStore(),
    // like a store whose log has a gap before the last five days
    async findClockDoubt(since: number) {
      asked.push(since)
      return since < now - 5 * day ? doubt : undefined
    },
  }
  const ingest = createIngest({ store, now: () => now - 10 * day })
  const projects = ['long', 'short', 'other', 'another']
  for (const projectId of projects) {
    await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  }
  const rules = [
    ['long', 30 * day],
    ['short', 4 * day],
    ['*', 9 * day],
  ] as const
  const { signal } = new AbortController()
  const onDoubt = ({ message }: ClockDoubt) => void reported.push(message)
  const reported: string[] = []
  const round = async () => {
    await applyRetention(ingest, rules, { onDoubt, signal, now })
    const erased = projects.map(async (projectId) => (await ingest.project(projectId).findEvent('e-1'))?.erased)
    return (await Promise.all(erased)).map((id) => id !== undefined)
  }
  t.strictSame(await round(), [false, true, false, false], 'an age without doubt is erased')
  t.strictSame(reported.splice(0), ['may be ahead'])
  t.strictSame(asked, [now - 30 * day, now - 4 * day, now - 9 * day])
  doubt = doubts.future
  t.strictSame(await round(), [false, true, true, true])
  t.strictSame(reported.splice(0), ['was ahead'])
  doubt = doubts.gap
  await round()
  t.strictSame(reported, [], 'nothing is left to erase')
})

t.test('a round that is stopped erases nothing more', async (t) => {
  const ingest = createIngest({ store: openMemoryStore(), now: () => 0 })
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e-1' }] })
  await t.rejects(applyRetention(ingest, [['*', 1]], { signal: AbortSignal.abort() }))
  t.equal((await ingest.project('p').findEvent('e-1'))?.erased, undefined)
})

t.test('a round reports consumers that have not read the events it erases, or keeps these events', async (t) => {
  let now = 0
  const ingest = createIngest({ store: openMemoryStore(), now: () => now })
  const project = ingest.project('p')
  const cursors: string[] = []
  for (const [i, eventId] of ['e-0', 'e-1', 'e-2', 'e-3'].entries()) {
    now = i * day
    await project.submitBatch({ events: [{ projectId: 'p', eventId }] })
    cursors.push(await project.lastCursor())
  }
  const put = (name: string, i: number) => project.putConsumer(name, { cursor: cursors[i] as string, replaces: null })
  await Promise.all([put('ahead', 2), put('behind', 0), put('done', 3)])
  const left = async () => {
    const ids: string[] = []
    for await (const { bytes } of project.readEvents()) ids.push(JSON.parse(bytes.toString()).eventId)
    return ids
  }
  const reported: unknown[] = []
  const { signal } = new AbortController()
  const round = (keepUnread: boolean, maxAge: number) =>
    applyRetention(ingest, [['*', maxAge]], { signal, now, keepUnread, onUnread: (unread) => reported.push(unread) })
  await round(true, 1)
  t.strictSame(await left(), ['e-1', 'e-2', 'e-3'], 'what the last consumer has read is erased')
  t.strictSame(reported.splice(0), [{ projectId: 'p', consumers: ['behind'] }])
  await round(true, 3 * day)
  t.strictSame(reported, [], 'nothing unread is old enough')
  await round(false, 1)
  t.strictSame([await left(), reported.splice(0)], [['e-3'], [{ projectId: 'p', consumers: ['behind'] }]])
  await round(false, 1)
  t.strictSame(reported, [], 'what is erased already is not reported again')
  const before = await ingest.retainEvents('p', now + 1, { keepUnread: true })
  t.strictSame([before.events, await left()], [0, ['e-3']])
  await project.deleteConsumer('behind')
  await project.deleteConsumer('ahead')
  t.equal((await ingest.retainEvents('p', now + 1, { keepUnread: true })).events, 1, 'every consumer has read it')
})

t.test('a consumer whose cursor is refused has read nothing', async (t) => {
  const store = openMemoryStore()
  const ingest = createIngest({ store, now: () => 0 })
  const project = ingest.project('p')
  await project.submitBatch({ events: [{ projectId: 'p', eventId: 'e-1' }] })
  const lost = { name: 'lost', cursor: 'of another epoch', updatedAt: 0 }
  await store.updateEntry('consumers', 'p', () => ({ entry: [lost], result: undefined }))
  t.strictSame(await project.listConsumers(), [{ ...lost, lag: null }])
  const reported: string[] = []
  const onUnread = (consumers: readonly string[]) => void reported.push(...consumers)
  t.equal((await ingest.retainEvents('p', 1, { keepUnread: true, onUnread })).events, 0)
  t.equal((await ingest.retainEvents('p', 1, { onUnread })).events, 1)
  t.strictSame(reported, ['lost', 'lost'])
})
