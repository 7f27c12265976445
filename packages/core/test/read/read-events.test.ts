import { getEventListeners } from 'node:events'
import { mock } from 'node:test'
import t from 'tap'
import { batchOf, event } from '../../../checks/src/store/sample-events.ts'
import { createIngest } from '../../src/ingest.ts'
import { digestOf } from '../../src/maps/digest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { createEventNotifier } from '../../src/read/event-notifier.ts'
import { followEvents, type ReadEventsOptions, type ReadPagesOptions } from '../../src/read/read-events.ts'
import type { Store } from '../../src/store.ts'
import type { ReadOptions, StoredEvent } from '../../src/store-types.ts'

/** Longer than any test, and than a timer of Node. */
const longMs = 2 ** 40
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** An Ingest on a store that records its reads and watches, and to which other processes append. */
function setUp({ isWatched = false, now = 0 } = {}) {
  const memory = openMemoryStore()
  const reads: ReadOptions[] = []
  const listeners = new Set<() => void>()
  const hooks = { duringRead: async () => {} }
  function watch(_: string, onAppend: () => void) {
    const listen = () => onAppend()
    listeners.add(listen)
    return () => void listeners.delete(listen)
  }
  const store: Store = {
    ...memory,
    ...(isWatched && { watch }),
    async *read(projectId, options = {}) {
      reads.push(options)
      yield* memory.read(projectId, options)
      await hooks.duringRead()
    },
  }
  const ingest = createIngest({ store, now: () => now })
  const project = ingest.project('p')
  return {
    ingest,
    project,
    reads,
    hooks,
    watches: () => listeners.size,
    /** Appends an event without a notification, as another process does. */
    async append(eventId: string, members: object = {}, receivedAt = 1_000) {
      await memory.append('p', batchOf([event(eventId, members)], { receivedAt }))
    },
    hint: () => {
      for (const listen of listeners) listen()
    },
    submit: (eventId: string, type = 'none', projectId = 'p') =>
      ingest.project(projectId).submitBatch({ events: [{ projectId, eventId, type }] }),
    ids: async (options: ReadEventsOptions = {}) => (await all(project.readEvents(options))).map(idOf),
    cursors: async () => (await all(project.readEvents())).map(({ cursor }) => cursor),
  }
}

const idOf = ({ bytes }: StoredEvent): string => JSON.parse(String(Buffer.from(bytes))).eventId

async function all(events: AsyncIterable<StoredEvent>): Promise<StoredEvent[]> {
  const found: StoredEvent[] = []
  for await (const event of events) found.push(event)
  return found
}

function first(events: AsyncIterable<StoredEvent>): Promise<IteratorResult<StoredEvent>> {
  return events[Symbol.asyncIterator]().next()
}

t.test('the limit counts matching events, and without a filter it is the limit of the store', async (t) => {
  const { append, reads, ids } = setUp()
  for (const id of ['a', 'b', 'c', 'd']) await append(id, { type: id < 'c' ? 'x' : 'y' })
  t.strictSame(await ids({ limit: 2 }), ['a', 'b'])
  t.strictSame(await ids({ limit: 1, type: 'y' }), ['c'])
  t.strictSame(await ids({ limit: 0, type: 'y' }), [])
  t.strictSame(await ids({ type: 'z' }), [])
  const any = Number.POSITIVE_INFINITY
  t.strictSame(
    reads.map(({ limit }) => limit),
    [2, any, 0, any],
  )
})

t.test('onProgress reports events that are filtered out, and yielded ones when the next is requested', async (t) => {
  const { append, project, ids, cursors } = setUp()
  for (const [i, id] of ['a', 'b', 'c', 'd'].entries()) await append(id, { type: id }, 1_000 + i)
  const progress: string[] = []
  const onProgress = (cursor: string) => void progress.push(cursor)
  const events = project.readEvents({ type: 'b', onProgress })[Symbol.asyncIterator]()
  t.equal(idOf((await events.next()).value), 'b')
  t.strictSame(progress, (await cursors()).slice(0, 1))
  t.equal((await events.next()).done, true)
  t.strictSame(progress.splice(0), await cursors())
  t.strictSame(await ids({ from: 1_001, to: 1_003, onProgress }), ['b', 'c'])
  t.strictSame(progress, (await cursors()).slice(1, 3), 'none from `to` on')
})

t.test('a long poll is woken by new events of its project, and by nothing else', async (t) => {
  const { project, reads, submit } = setUp()
  const found = all(project.readEvents({ waitMs: longMs, type: 'a' }))
  const turns = () => new Promise((resolve) => setTimeout(resolve, 0))
  await turns()
  const before = reads.length
  await submit('b')
  await turns()
  t.equal(reads.length, before + 1)
  await submit('b')
  await submit('a', 'a', 'q')
  await turns()
  t.equal(reads.length, before + 1, 'not by duplicates or other projects')
  await submit('c', 'a')
  t.match((await found).map(idOf), ['c'])
})

t.test(
  'an event without a hint is found: after 5 minutes in a store that gives hints, otherwise in 0.5 s',
  async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    for (const [isWatched, ms] of [
      [true, 300_000],
      [false, 500],
    ] as const) {
      const { append, project, reads } = setUp({ isWatched })
      const found = first(project.readEvents({ waitMs: longMs }))
      await turn()
      await append('a')
      mock.timers.tick(ms - 1)
      await turn()
      t.equal(reads.length, 1)
      mock.timers.tick(1)
      t.match(await found, { done: false })
    }
  },
)

t.test('a read with results does not wait, nor does one with a limit of 0 or a `to` in the past', async (t) => {
  const { append, ids, cursors } = setUp({ now: 2_000 })
  await append('a')
  t.strictSame(await ids({ waitMs: longMs }), ['a'])
  const [after = ''] = await cursors()
  t.strictSame(await ids({ waitMs: longMs, after, limit: 0 }), [])
  t.strictSame(await ids({ waitMs: longMs, after, to: 2_000 }), [])
})

t.test('a long poll ends after waitMs', async (t) => {
  const { reads, ids } = setUp()
  // longer than the first read takes on a busy machine
  t.strictSame(await ids({ waitMs: 200 }), [])
  t.ok(reads.length > 1, 'with a last read')
})

t.test('a signal ends a read with its reason, after the event that was yielded', async (t) => {
  const { append, project, ids, cursors } = setUp()
  const reason = new Error('enough')
  await t.rejects(ids({ signal: AbortSignal.abort(reason) }), reason)
  await append('a')
  await append('b')
  const leaving = new AbortController()
  const progress: string[] = []
  const onProgress = (cursor: string) => void progress.push(cursor)
  const events = project.readEvents({ signal: leaving.signal, onProgress })[Symbol.asyncIterator]()
  await events.next()
  leaving.abort(reason)
  await t.rejects(events.next(), reason)
  t.strictSame(progress, (await cursors()).slice(0, 1), 'the yielded event was taken')
})

t.test('a reader that leaves, or aborts, in the middle of a page ends the read of the store', async (t) => {
  const memory = openMemoryStore()
  let open = 0
  const store: Store = {
    ...memory,
    async *read(projectId, options) {
      open++
      try {
        yield* memory.read(projectId, options)
      } finally {
        open--
      }
    },
  }
  const project = createIngest({ store }).project('p')
  const ids = Array.from({ length: 90 }, (_, i) => `${i}`)
  await memory.append('p', batchOf(ids.map((id) => event(id))))
  const reads = {
    readEvents: (options: ReadPagesOptions) => project.readEvents(options),
    followEvents: (options: ReadPagesOptions) => followEvents(project, options),
  }
  for (const [name, start] of Object.entries(reads)) {
    const seen: string[] = []
    for await (const each of start({})) if (seen.push(idOf(each)) === 7) break
    t.strictSame([seen, open], [ids.slice(0, 7), 0], name)
    const controller = new AbortController()
    const aborted = (async () => {
      for await (const each of start({ signal: controller.signal }))
        if (seen.push(idOf(each)) === 10) controller.abort(new RangeError('left'))
    })()
    await t.rejects(aborted, RangeError, name)
    t.strictSame([seen.slice(7), open], [ids.slice(0, 3), 0], name)
  }
})

t.test('a read ends with the first event from `to` on, also in the middle of a page', async (t) => {
  const memory = openMemoryStore()
  let pages = 0
  const store: Store = {
    ...memory,
    async *read(...args) {
      for await (const page of memory.read(...args)) {
        pages++
        yield page
      }
    },
  }
  const ids = Array.from({ length: 500 }, (_, i) => `${i}`)
  for (const [i, id] of ids.entries()) await memory.append('p', batchOf([event(id)], { receivedAt: 1_000 + i }))
  const found = await all(createIngest({ store }).project('p').readEvents({ to: 1_050 }))
  t.strictSame(found.map(idOf), ids.slice(0, 50))
  t.equal(pages, 1)
})

t.test('a long poll that wakes to many events, or to large ones, reads them all, some at a time', async (t) => {
  const memory = openMemoryStore()
  const store: Store = {
    ...memory,
    // a page for each event
    async *read(...args) {
      for await (const page of memory.read(...args)) for (const each of page) yield [each]
    },
  }
  const project = createIngest({ store }).project('p')
  for (const [count, size, least] of [
    [600, 1, 3],
    [12, 250_000, 3],
  ] as const) {
    const after = await project.lastCursor()
    const sizes: number[] = []
    const reading = (async () => {
      for await (const { events } of project.readPages({ after, waitMs: longMs })) sizes.push(events.length)
    })()
    await turn()
    const fill = 'x'.repeat(size)
    const appended = Array.from({ length: count }, (_, i) => event(`${size}-${i}`, { fill }))
    // of another process, but for the last, which wakes the poll
    for (const each of appended.slice(1)) await memory.append('p', batchOf([each]))
    await project.submitBatch({ events: [{ projectId: 'p', eventId: `${size}-last` }] })
    await reading
    t.equal(
      sizes.reduce((sum, each) => sum + each, 0),
      count,
    )
    t.ok(sizes.length >= least, `${sizes.length} reads`)
  }
})

t.test('a notification of the store wakes a long poll for the events of another process', async (t) => {
  const { append, hint, project, reads, watches } = setUp({ isWatched: true })
  const found = first(project.readEvents({ waitMs: longMs }))
  await turn()
  t.equal(watches(), 1)
  // too early: the read that it causes finds nothing
  hint()
  while (reads.length < 2) await turn()
  await turn()
  await append('a')
  hint()
  t.match(await found, { done: false })
})

t.test('an event after the first read of a long poll is found if it is notified during that read', async (t) => {
  const { append, hint, project, hooks } = setUp({ isWatched: true })
  hooks.duringRead = async () => {
    hooks.duringRead = async () => {}
    await append('a')
    hint()
  }
  t.match(await first(project.readEvents({ waitMs: longMs })), { done: false })
})

t.test('a watch ends with its read, however that ends', async (t) => {
  const { append, hint, watches, ingest, project } = setUp({ isWatched: true })
  await append('a')
  for await (const _ of project.readEvents()) t.equal(watches(), 0, 'a read that does not wait has none')
  for await (const _ of project.readEvents({ waitMs: longMs })) t.equal(watches(), 1)
  t.equal(watches(), 0, 'ended with the events')
  for await (const _ of project.readEvents({ waitMs: longMs })) break
  t.equal(watches(), 0, 'ended by its reader')
  await t.rejects(first(project.readEvents({ waitMs: longMs, after: 'x' })), { code: 'invalid-cursor' })
  t.equal(watches(), 0, 'ended by an error')

  const after = await project.lastCursor()
  const controller = new AbortController()
  const aborted = first(project.readEvents({ waitMs: longMs, after, signal: controller.signal }))
  await turn()
  t.equal(watches(), 1)
  controller.abort(new RangeError('left'))
  await t.rejects(aborted, RangeError)
  t.equal(watches(), 0, 'ended by its signal')

  const followed = followEvents(project, { after })
  const next = followed.next()
  await turn()
  await append('b')
  hint()
  t.match(await next, { done: false })
  await followed.return()
  t.equal(watches(), 0, 'of followEvents')

  const closed = first(project.readEvents({ waitMs: longMs, after: await project.lastCursor() }))
  const idle = project.readEvents({ waitMs: longMs })[Symbol.asyncIterator]()
  await idle.next()
  t.equal(watches(), 1, 'one for all polls of a project')
  await Promise.all([t.rejects(closed, { code: 'store-closed' }), ingest.close()])
  t.equal(watches(), 0, 'ended by close, also of a reader that never continues')
})

t.test('long polls that wake together share a read, and none misses an event stored during it', async (t) => {
  const { append, hint, reads, project, hooks } = setUp({ isWatched: true })
  // slow, so that events are appended during the read
  hooks.duringRead = async () => void (await turn())
  const end = new AbortController()
  const seen = Array.from({ length: 100 }, (): string[] => [])
  const polls = seen.map(async (ids) => {
    const wanted = { type: 'none', signal: end.signal, onProgress: () => void ids.push('') }
    for await (const _ of followEvents(project, wanted));
  })
  for (const poll of polls) poll.catch(() => {})
  for (let i = 0; i < 20; i++) await turn()
  t.equal(reads.length, 100, 'each has read what there was')
  for (let i = 0; i < 10; i++) {
    await append(`e-${i}`)
    hint()
    for (let turns = 0; turns < i % 4; turns++) await turn()
  }
  while (seen.some((ids) => ids.length < 10)) await turn()
  t.ok(reads.length <= 100 + 2 * 20, `${reads.length} reads`)
  t.ok(seen.every((ids) => ids.length === 10))
  end.abort(new Error('enough'))
  await Promise.allSettled(polls)
})

/** A `watch` that records the watched projects. */
function createWatch() {
  const projects: string[] = []
  const watch = (projectId: string) => {
    projects.push(projectId)
    return () => void projects.splice(projects.indexOf(projectId), 1)
  }
  return { watch, projects }
}

t.test('the subscriptions of a project share one watch, which ends with the last of them, or by close', async (t) => {
  const { watch, projects } = createWatch()
  const notifier = createEventNotifier(watch)
  const [a, b, other] = [notifier.subscribe('p'), notifier.subscribe('p'), notifier.subscribe('q')]
  t.strictSame(projects, ['p', 'q'])
  a.end()
  a.end()
  t.strictSame(projects, ['p', 'q'])
  const woken = b.next(2 ** 30, undefined)
  notifier.notify('p')
  await woken
  b.end()
  other.end()
  t.strictSame(projects, [])
  const again = notifier.subscribe('p')
  t.strictSame(projects, ['p'], 'watched again')
  notifier.close()
  t.strictSame(projects, [])
  again.end()
  await t.rejects(notifier.subscribe('q').next(2 ** 30, undefined), { code: 'store-closed' })
  t.strictSame(projects, [], 'a later subscription begins none')
})

t.test('a subscription that was woken leaves no listener on its signal', async (t) => {
  const notifier = createEventNotifier()
  const leaving = new AbortController()
  const { signal } = leaving
  const subscription = notifier.subscribe('p')
  const woken = subscription.next(2 ** 30, signal)
  notifier.notify('p')
  await woken
  t.strictSame(getEventListeners(signal, 'abort'), [])
  const aborted = subscription.next(2 ** 30, signal)
  leaving.abort()
  await aborted
  t.strictSame(getEventListeners(signal, 'abort'), [])
  await subscription.next(2 ** 30, signal)
})

t.test('a watch that throws is the error of the subscription, and the next one begins it again', async (t) => {
  let isDown = true
  const notifier = createEventNotifier(() => {
    if (isDown) throw new RangeError('closed')
    return () => {}
  })
  t.throws(() => notifier.subscribe('p'), RangeError)
  isDown = false
  notifier.subscribe('p').end()
})

t.test('followEvents continues each read where the last one ended, also after filtered events', async (t) => {
  const { project, submit, cursors } = setUp({ now: 1 })
  const reads: ReadPagesOptions[] = []
  const progress: string[] = []
  const watched = {
    readPages(options: ReadPagesOptions = {}) {
      reads.push(options)
      return project.readPages(options)
    },
  }
  for (const [i, type] of ['x', 'y', 'x'].entries()) await submit(`${i}`, type)
  const events = followEvents(watched, { type: 'y', from: 1, onProgress: (cursor) => void progress.push(cursor) })
  const second = (await events.next()).value?.cursor
  const next = events.next()
  while (reads.length < 2) await turn()
  await submit('3', 'x')
  await submit('4', 'y')
  const fifth = (await next).value?.cursor
  const all = await cursors()
  t.strictSame([second, fifth], [all[1], all[4]])
  t.strictSame(progress, all.slice(0, 4))
  t.match(reads, [
    { type: 'y', from: 1, waitMs: Number },
    { type: 'y', from: 1, waitMs: Number, after: all[2] as string },
  ])
  t.notOk('after' in (reads[0] ?? {}))
  await events.return()
})

t.test('a consumer that leaves, or whose signal aborts, ends a scan that finds nothing', async (t) => {
  let read = 0
  const memory = openMemoryStore()
  const store: Store = {
    ...memory,
    async *read(projectId, options = {}) {
      for (;;) {
        read++
        await turn()
        yield* memory.read(projectId, options)
      }
    },
  }
  const project = createIngest({ store }).project('p')
  await project.submitBatch({ events: [{ projectId: 'p', eventId: 'a', type: 'some' }] })
  const reads = {
    readEvents: (signal?: AbortSignal) => project.readEvents({ type: 'none', ...(signal && { signal }) }),
    readBatches: (signal?: AbortSignal) => project.readBatches({ type: 'none', ...(signal && { signal }) }),
    followEvents: (signal?: AbortSignal) => followEvents(project, { type: 'none', ...(signal && { signal }) }),
    'the signal of the project': (signal?: AbortSignal) =>
      createIngest({ store }).project('p', { signal }).readEvents({ type: 'none' }),
  }
  for (const [name, start] of Object.entries(reads)) {
    const left = start()[Symbol.asyncIterator]()
    const pending = left.next()
    for (const from = read; read < from + 3; ) await turn()
    await left.return?.()
    t.match(await pending, { done: true }, name)
    const controller = new AbortController()
    const aborted: Promise<unknown> = start(controller.signal)[Symbol.asyncIterator]().next()
    for (const from = read; read < from + 3; ) await turn()
    controller.abort(new RangeError('left'))
    await t.rejects(aborted, RangeError, name)
    const stopped = read
    for (let i = 0; i < 3; i++) await turn()
    t.equal(read, stopped, `${name}: nothing is read any more`)
  }
})

t.test('once the signal of a project has aborted, its calls start nothing and reject with the reason', async (t) => {
  const store = openMemoryStore()
  const controller = new AbortController()
  const project = createIngest({ store }).project('p', { signal: controller.signal })
  await project.publishMap({ placeId: '1', buildId: 'b', map: {} })
  const content = (await project.getMapContent({ placeId: '1', buildId: 'b' }))?.bytes()[Symbol.asyncIterator]()
  const cursor = await project.lastCursor()
  controller.abort(new RangeError('left'))
  const id = { placeId: '1', buildId: 'b' }
  const calls: Record<string, () => Promise<unknown>> = {
    lastCursor: () => project.lastCursor(),
    findEvent: () => project.findEvent('a'),
    getStats: () => project.getStats(),
    listBuilds: () => project.listBuilds(),
    getActivity: () => project.getActivity(),
    listRejected: () => project.listRejected(),
    listConsumers: () => project.listConsumers(),
    putConsumer: () => project.putConsumer('c', { cursor, replaces: null }),
    deleteConsumer: () => project.deleteConsumer('c'),
    getMap: () => project.getMap(id),
    listMaps: () => project.listMaps(),
    publishMap: () => project.publishMap({ ...id, map: [] }),
    putChunks: () => project.putChunks([{ digest: digestOf(Buffer.from('x')), bytes: Buffer.from('x') }]),
    getMapContent: () => project.getMapContent(id),
    'the rest of a map': async () => content?.next(),
  }
  for (const [name, call] of Object.entries(calls)) await t.rejects(call(), RangeError, name)
  t.equal((await project.submitBatch({ events: [{ projectId: 'p', eventId: 'a' }] })).accepted, 1, 'a batch is stored')
})
