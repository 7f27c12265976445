import { mock } from 'node:test'
import t from 'tap'
import type { StoredEvent } from '../../src/events/event-store.ts'
import { followEvents } from '../../src/events/read-events.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { Store } from '../../src/store.ts'

/** Longer than any test, and than a timer of Node. */
const waitMs = 2 ** 40
const event = (eventId: string) => ({ projectId: 'p', eventId })
const turn = () => new Promise((resolve) => setImmediate(resolve))

function first(events: AsyncIterable<StoredEvent>): Promise<IteratorResult<StoredEvent>> {
  return events[Symbol.asyncIterator]().next()
}

/** A store that other processes append to as well, and the number of its watches. */
function openWatchedStore() {
  const memory = openMemoryStore()
  const listeners = new Set<() => void>()
  const store: Store = {
    ...memory,
    watch(_, onAppend) {
      const listen = () => onAppend()
      listeners.add(listen)
      return () => void listeners.delete(listen)
    },
  }
  return {
    store,
    memory,
    watches: () => listeners.size,
    hint: () => {
      for (const listen of listeners) listen()
    },
    async append(eventId: string) {
      await createIngest({ store: memory })
        .project('p')
        .submitBatch({ events: [event(eventId)] })
    },
  }
}

t.test('a hint of the store wakes a long poll for the events of another process', async (t) => {
  const { store, append, hint, watches } = openWatchedStore()
  const ingest = createIngest({ store })
  const found = first(ingest.project('p').readEvents({ waitMs }))
  await turn()
  t.equal(watches(), 1)
  hint()
  await turn()
  await append('a')
  hint()
  t.match(await found, { done: false })
})

t.test('an event behind the first read of a long poll is found if the hint comes during that read', async (t) => {
  const { store, memory, append, hint } = openWatchedStore()
  let isFirst = true
  const ingest = createIngest({
    store: {
      ...store,
      async *read(...args) {
        yield* memory.read(...args)
        if (!isFirst) return
        isFirst = false
        await append('a')
        hint()
      },
    },
  })
  t.match(await first(ingest.project('p').readEvents({ waitMs })), { done: false })
})

t.test('an event without a hint is found after 5 minutes', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { store, append } = openWatchedStore()
  const found = first(createIngest({ store }).project('p').readEvents({ waitMs }))
  await turn()
  await append('a')
  mock.timers.tick(300_000)
  t.match(await found, { done: false })
})

t.test('a watch ends with its read, however that ends', async (t) => {
  const { store, append, hint, watches } = openWatchedStore()
  const ingest = createIngest({ store })
  const project = ingest.project('p')
  await append('a')
  for await (const _ of project.readEvents({ waitMs })) t.equal(watches(), 1)
  t.equal(watches(), 0, 'ended with the events')
  for await (const _ of project.readEvents({ waitMs })) break
  t.equal(watches(), 0, 'ended by its reader')
  await t.rejects(first(project.readEvents({ waitMs, after: 'x' })), { code: 'invalid-cursor' })
  t.equal(watches(), 0, 'ended by an error')

  const after = await project.lastCursor()
  const controller = new AbortController()
  const aborted = first(project.readEvents({ waitMs, after, signal: controller.signal }))
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
  await followed.return(undefined as never)
  t.equal(watches(), 0, 'of followEvents')

  const closed = first(project.readEvents({ waitMs, after: await project.lastCursor() }))
  const idle = project.readEvents({ waitMs })[Symbol.asyncIterator]()
  await idle.next()
  t.equal(watches(), 1)
  await ingest.close()
  await t.rejects(closed, { code: 'store-closed' })
  t.equal(watches(), 0, 'ended by close, also of a reader that never continues')
})

t.test('a read that does not wait is not watched', async (t) => {
  const { store, append, watches } = openWatchedStore()
  await append('a')
  for await (const _ of createIngest({ store }).project('p').readEvents()) t.equal(watches(), 0)
})

t.test('long polls that wake together share a read, and none misses what comes during it', async (t) => {
  const { store, append, hint } = openWatchedStore()
  let reads = 0
  const counted: Store = {
    ...store,
    async *read(...args) {
      reads++
      const events = []
      for await (const each of store.read(...args)) events.push(each)
      // slow, so that events are appended during the read
      await turn()
      yield* events
    },
  }
  const ingest = createIngest({ store: counted })
  const end = new AbortController()
  const seen = Array.from({ length: 100 }, (): string[] => [])
  const polls = seen.map(async (ids) => {
    const wanted = { type: 'none', signal: end.signal, onProgress: () => void ids.push('') }
    for await (const _ of followEvents(ingest.project('p'), wanted));
  })
  for (const poll of polls) poll.catch(() => {})
  for (let i = 0; i < 20; i++) await turn()
  t.equal(reads, 100, 'each has read what there was')
  for (let i = 0; i < 10; i++) {
    await append(`e-${i}`)
    hint()
    for (let turns = 0; turns < i % 4; turns++) await turn()
  }
  while (seen.some((ids) => ids.length < 10)) await turn()
  t.ok(reads <= 100 + 2 * 20, `${reads} reads`)
  t.ok(seen.every((ids) => ids.length === 10))
  end.abort(new Error('enough'))
  await Promise.allSettled(polls)
})
