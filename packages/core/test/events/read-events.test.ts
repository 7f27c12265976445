import t from 'tap'
import { createArrivals } from '../../src/events/event-notifier.ts'
import type { StoredEvent } from '../../src/events/event-store.ts'
import { type ReadEventsOptions, readEvents } from '../../src/events/read-events.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { Store } from '../../src/store.ts'

/** Longer than any test: a read that waits for so long is not ended by its wait. */
const forEver = 2 ** 30

/** A store that tells of each look at it, and what reads it. */
function setUp() {
  const memory = openMemoryStore()
  const arrivals = createArrivals()
  const looks: object[] = []
  let onLook = () => {}
  const store: Store = {
    ...memory,
    async *read(projectId, options) {
      looks.push(options ?? {})
      yield* memory.read(projectId, options)
      onLook()
    },
  }
  return {
    arrivals,
    looks,
    /** Resolves when there is nothing more to read. */
    looked: () =>
      new Promise<void>((resolve) => {
        onLook = resolve
      }),
    /** As another process does, of which nobody tells. */
    async append(eventId: string, members: object = {}, receivedAt = 1_000) {
      const text = JSON.stringify({ eventId, ...members })
      const body = Buffer.from(`{"events":[${text}]}`)
      const events = [{ eventId, start: 11, end: 11 + text.length }]
      await store.append('p', { body, isWhole: true, events, receivedAt })
    },
    read: (options: ReadEventsOptions = {}, now = 0) => readEvents({ store, arrivals, now: () => now }, 'p', options),
  }
}

const idOf = ({ bytes }: { bytes: Uint8Array }) => JSON.parse(String(Buffer.from(bytes))).eventId

async function idsOf(events: AsyncIterable<{ bytes: Uint8Array }>): Promise<string[]> {
  const ids: string[] = []
  for await (const event of events) ids.push(idOf(event))
  return ids
}

t.test('the limit counts what is wanted, and no more is asked of the store than that if everything is', async (t) => {
  const { append, looks, read } = setUp()
  for (const id of ['a', 'b', 'c', 'd']) await append(id, { type: id < 'c' ? 'x' : 'y' })
  t.strictSame(await idsOf(read({ limit: 2 })), ['a', 'b'])
  t.strictSame(await idsOf(read({ limit: 1, type: 'y' })), ['c'])
  t.strictSame(await idsOf(read({ limit: 0, type: 'y' })), [])
  t.strictSame(await idsOf(read({ type: 'z' })), [])
  t.strictSame(looks, [{ limit: 2 }, {}, { limit: 0 }, { limit: Number.POSITIVE_INFINITY }].slice(0, 3).concat({}))
})

t.test('reading ends at the first event that came too late', async (t) => {
  const { append, read } = setUp()
  for (const [i, id] of ['a', 'b', 'c', 'd'].entries()) await append(id, {}, 1_000 + i)
  const cursors: string[] = []
  const onProgress = (cursor: string) => void cursors.push(cursor)
  t.strictSame(await idsOf(read({ from: 1_001, to: 1_003, onProgress })), ['b', 'c'])
  t.strictSame(cursors, (await cursorsOf(read())).slice(1, 3))
  t.strictSame(await idsOf(read({ from: 1_003, to: 1_003 })), [])
})

t.test('progress is told for what is left out, and for what was given when its reader comes back', async (t) => {
  const { append, read } = setUp()
  for (const id of ['a', 'b', 'c']) await append(id, { type: id })
  const cursors: string[] = []
  const events = read({ type: 'b', onProgress: (cursor) => void cursors.push(cursor) })
  t.equal(idOf((await events.next()).value as never), 'b')
  t.strictSame(cursors, (await cursorsOf(read())).slice(0, 1))
  t.equal((await events.next()).done, true)
  t.strictSame(cursors, await cursorsOf(read()))
})

t.test('a read that finds nothing waits for what is stored here, and ends with what there is', async (t) => {
  const { append, arrivals, looked, read } = setUp()
  await append('old', { type: 'x' })
  const found = looked()
  const ids = idsOf(read({ type: 'y', waitMs: forEver }))
  await found
  const again = looked()
  await append('other', { type: 'x' })
  arrivals.announce('p')
  await again
  await append('a', { type: 'y' })
  await append('b', { type: 'y' })
  arrivals.announce('p')
  t.strictSame(await ids, ['a', 'b'])
})

t.test('what comes between a look and the wait is not slept over', async (t) => {
  const { append, arrivals, looks, read } = setUp()
  await append('first', { type: 'x' })
  const ids = idsOf(
    read({
      type: 'y',
      waitMs: forEver,
      onProgress() {
        // while the read is under way, and yet behind what it sees
        if (looks.length === 1) arrivals.announce('p')
      },
    }),
  )
  await append('a', { type: 'y' })
  arrivals.announce('p')
  t.strictSame(await ids, ['a'])
})

t.test('what other processes store is found without being told', async (t) => {
  const { append, looked, read } = setUp()
  const found = looked()
  const ids = idsOf(read({ waitMs: forEver }))
  await found
  await append('a')
  t.strictSame(await ids, ['a'])
})

t.test('a read that found something does not wait, nor does one that is for nothing or for what is over', async (t) => {
  const { append, read } = setUp()
  await append('a')
  t.strictSame(await idsOf(read({ waitMs: forEver })), ['a'])
  const [after = ''] = await cursorsOf(read())
  t.strictSame(await idsOf(read({ waitMs: forEver, after, limit: 0 })), [])
  t.strictSame(await idsOf(read({ waitMs: forEver, after, to: 2_000 }, 2_000)), [])
})

t.test('a wait ends when its time is up', async (t) => {
  const { looks, read } = setUp()
  t.strictSame(await idsOf(read({ waitMs: 1 })), [])
  t.ok(looks.length > 1, 'with a last look')
})

t.test('a signal ends a wait and a read with its reason', async (t) => {
  const { append, looked, read } = setUp()
  const reason = new Error('enough')
  const controller = new AbortController()
  const found = looked()
  const waiting = idsOf(read({ waitMs: forEver, signal: controller.signal }))
  await found
  controller.abort(reason)
  await t.rejects(waiting, reason)
  await t.rejects(idsOf(read({ signal: controller.signal })), reason)

  await append('a')
  await append('b')
  const other = new AbortController()
  const cursors: string[] = []
  const events = read({ signal: other.signal, onProgress: (cursor) => void cursors.push(cursor) })
  await events.next()
  other.abort(reason)
  await t.rejects(events.next(), reason)
  t.strictSame(cursors, (await cursorsOf(read())).slice(0, 1), 'what was given was taken')
})

t.test('the end of all waiting ends it, also where the store is still open', async (t) => {
  const { arrivals, looked, read } = setUp()
  const found = looked()
  const waiting = idsOf(read({ waitMs: forEver }))
  await found
  arrivals.close()
  await t.rejects(waiting, { code: 'store-closed' })
})

async function cursorsOf(events: AsyncIterable<StoredEvent>): Promise<string[]> {
  const cursors: string[] = []
  for await (const { cursor } of events) cursors.push(cursor)
  return cursors
}
