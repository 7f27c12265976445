import fc from 'fast-check'
import t from 'tap'
import { batchOf, event } from '../../../checks/src/store/sample-events.ts'
import { createEventNotifier } from '../../src/events/event-notifier.ts'
import type { StoredEvent } from '../../src/events/event-store.ts'
import {
  compileEventFilter,
  createReadArrivals,
  type EventFilter,
  followEvents,
  type ReadEventsOptions,
  readEvents,
} from '../../src/events/read-events.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { Store } from '../../src/store.ts'

/** Longer than any test. */
const longMs = 2 ** 30

/** A store that records each read of it, and its reader. */
function setUp() {
  const memory = openMemoryStore()
  const notifier = createEventNotifier()
  const reads: object[] = []
  let onRead = () => {}
  const store: Store = {
    ...memory,
    async *read(projectId, options) {
      reads.push(options ?? {})
      yield* memory.read(projectId, options)
      onRead()
    },
  }
  const readArrivals = createReadArrivals(store)
  return {
    notifier,
    reads,
    /** Resolves when the next read of the store ends. */
    readEnded: () =>
      new Promise<void>((resolve) => {
        onRead = resolve
      }),
    /** As another process does, without a notification. */
    async append(eventId: string, members: object = {}, receivedAt = 1_000) {
      await store.append('p', batchOf([event(eventId, members)], { receivedAt }))
    },
    read: (options: ReadEventsOptions = {}, now = 0) =>
      readEvents({ store, readArrivals, notifier, now: () => now }, 'p', options),
  }
}

const parseId = ({ bytes }: { bytes: Uint8Array }) => JSON.parse(String(Buffer.from(bytes))).eventId

async function readIds(events: AsyncIterable<{ bytes: Uint8Array }>): Promise<string[]> {
  const ids: string[] = []
  for await (const event of events) ids.push(parseId(event))
  return ids
}

t.test('the limit counts matching events, and without a filter it is the limit of the store', async (t) => {
  const { append, reads, read } = setUp()
  for (const id of ['a', 'b', 'c', 'd']) await append(id, { type: id < 'c' ? 'x' : 'y' })
  t.strictSame(await readIds(read({ limit: 2 })), ['a', 'b'])
  t.strictSame(await readIds(read({ limit: 1, type: 'y' })), ['c'])
  t.strictSame(await readIds(read({ limit: 0, type: 'y' })), [])
  t.strictSame(await readIds(read({ type: 'z' })), [])
  t.strictSame(reads, [{ limit: 2 }, {}, { limit: 0 }, { limit: Number.POSITIVE_INFINITY }].slice(0, 3).concat({}))
})

t.test('reading ends at the first event received at `to` or later', async (t) => {
  const { append, read } = setUp()
  for (const [i, id] of ['a', 'b', 'c', 'd'].entries()) await append(id, {}, 1_000 + i)
  const cursors: string[] = []
  const onProgress = (cursor: string) => void cursors.push(cursor)
  t.strictSame(await readIds(read({ from: 1_001, to: 1_003, onProgress })), ['b', 'c'])
  t.strictSame(cursors, (await readCursors(read())).slice(1, 3))
  t.strictSame(await readIds(read({ from: 1_003, to: 1_003 })), [])
})

t.test('onProgress reports events that are filtered out, and yielded ones when the next is requested', async (t) => {
  const { append, read } = setUp()
  for (const id of ['a', 'b', 'c']) await append(id, { type: id })
  const cursors: string[] = []
  const events = read({ type: 'b', onProgress: (cursor) => void cursors.push(cursor) })
  t.equal(parseId((await events.next()).value as never), 'b')
  t.strictSame(cursors, (await readCursors(read())).slice(0, 1))
  t.equal((await events.next()).done, true)
  t.strictSame(cursors, await readCursors(read()))
})

t.test('a long poll is woken by events of this process, and ends behind the last one', async (t) => {
  const { append, notifier, readEnded, read } = setUp()
  await append('old', { type: 'x' })
  const found = readEnded()
  const ids = readIds(read({ type: 'y', waitMs: longMs }))
  await found
  const again = readEnded()
  await append('other', { type: 'x' })
  notifier.notify('p')
  await again
  await append('a', { type: 'y' })
  await append('b', { type: 'y' })
  notifier.notify('p')
  t.strictSame(await ids, ['a', 'b'])
})

t.test('an event that is stored between a read and the wait wakes the long poll', async (t) => {
  const { append, notifier, reads, read } = setUp()
  await append('first', { type: 'x' })
  const ids = readIds(
    read({
      type: 'y',
      waitMs: longMs,
      onProgress() {
        // during the read, but behind its snapshot
        if (reads.length === 1) notifier.notify('p')
      },
    }),
  )
  await append('a', { type: 'y' })
  notifier.notify('p')
  t.strictSame(await ids, ['a'])
})

t.test('events of other processes are found without a notification', async (t) => {
  const { append, readEnded, read } = setUp()
  const found = readEnded()
  const ids = readIds(read({ waitMs: longMs }))
  await found
  await append('a')
  t.strictSame(await ids, ['a'])
})

t.test('a read with results does not wait, nor does one with a limit of 0 or a past `to`', async (t) => {
  const { append, read } = setUp()
  await append('a')
  t.strictSame(await readIds(read({ waitMs: longMs })), ['a'])
  const [after = ''] = await readCursors(read())
  t.strictSame(await readIds(read({ waitMs: longMs, after, limit: 0 })), [])
  t.strictSame(await readIds(read({ waitMs: longMs, after, to: 2_000 }, 2_000)), [])
})

t.test('a long poll ends after waitMs', async (t) => {
  const { reads, read } = setUp()
  // longer than the first read takes on a busy machine
  t.strictSame(await readIds(read({ waitMs: 200 })), [])
  t.ok(reads.length > 1, 'with a last read')
})

t.test('a signal ends a long poll and a read with its reason', async (t) => {
  const { append, readEnded, read } = setUp()
  const reason = new Error('enough')
  const controller = new AbortController()
  const found = readEnded()
  const waiting = readIds(read({ waitMs: longMs, signal: controller.signal }))
  await found
  controller.abort(reason)
  await t.rejects(waiting, reason)
  await t.rejects(readIds(read({ signal: controller.signal })), reason)

  await append('a')
  await append('b')
  const other = new AbortController()
  const cursors: string[] = []
  const events = read({ signal: other.signal, onProgress: (cursor) => void cursors.push(cursor) })
  await events.next()
  other.abort(reason)
  await t.rejects(events.next(), reason)
  t.strictSame(cursors, (await readCursors(read())).slice(0, 1), 'the yielded event was taken')
})

t.test('closing the notifier ends a long poll, also while the store is open', async (t) => {
  const { notifier, readEnded, read } = setUp()
  const found = readEnded()
  const waiting = readIds(read({ waitMs: longMs }))
  await found
  notifier.close()
  await t.rejects(waiting, { code: 'store-closed' })
})

async function readCursors(events: AsyncIterable<StoredEvent>): Promise<string[]> {
  const cursors: string[] = []
  for await (const { cursor } of events) cursors.push(cursor)
  return cursors
}

const matches = (filter: EventFilter, text: string) => compileEventFilter(filter)?.(Buffer.from(text))

t.test('an empty filter is undefined', async (t) => {
  t.equal(compileEventFilter({}), undefined)
})

t.test('a filter matches events with exactly its values', async (t) => {
  const text = '{"projectId":"p","eventId":"e","type":"kill","buildId":"b1"}'
  t.equal(matches({ type: 'kill' }, text), true)
  t.equal(matches({ buildId: 'b1' }, text), true)
  t.equal(matches({ type: 'kill', buildId: 'b1' }, text), true)
  t.equal(matches({ type: 'kill', buildId: 'b2' }, text), false)
  for (const type of ['Kill', 'kil', 'kill ', 'b1', 'e']) t.equal(matches({ type }, text), false, type)
})

t.test('a filter decodes escapes, ignores nested members and takes the last of a name', async (t) => {
  t.equal(matches({ type: 'kill' }, '{"ty\\u0070e":"\\u006bill"}'), true)
  t.equal(matches({ type: 'a/"é' }, '{"type":"a\\/\\"\\u00e9"}'), true)
  t.equal(matches({ type: 'kill' }, '{"a":"kill","b":{"type":"kill"},"c":"\\"type\\":\\"kill\\""}'), false)
  t.equal(matches({ type: 'kill' }, '{"type":"kill","type":"other"}'), false)
  t.equal(matches({ type: 'kill' }, '{"type":"other","type":"kill"}'), true)
  t.equal(matches({ type: 'kill' }, '{"__proto__":{"type":"kill"}}'), false)
  t.equal(matches({ type: '5' }, '{"type":5}'), false)
})

t.test('a filter reads an event inside a larger array', async (t) => {
  const bytes = new Uint8Array(Buffer.from('"kill"{"type":"x"}"kill"'))
  const isWanted = compileEventFilter({ type: 'kill' })
  t.equal(isWanted?.(bytes.subarray(6, -6)), false)
})

t.test('a filter agrees with the parsed event', async (t) => {
  const text = fc.oneof(fc.constantFrom('a', 'b"', '\\', 'é', '\ud800', ''), fc.string())
  fc.assert(
    fc.property(text, text, fc.boolean(), (wanted, actual, isEscaped) => {
      const json = JSON.stringify({ type: actual })
      const written = isEscaped ? json.replace('type', '\\u0074ype') : json
      t.equal(matches({ type: wanted }, written), wanted === JSON.parse(json).type)
    }),
  )
})

t.test('followEvents continues each read behind the one before, also behind filtered events', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const submit = (...types: string[]) =>
    ingest.project('p').submitBatch({
      events: types.map((type) => ({ projectId: 'p', eventId: `${type}-${Math.random()}`, type })),
    })
  const reads: ReadEventsOptions[] = []
  const progress: string[] = []
  let onSecondRead = () => {}
  const secondRead = new Promise<void>((resolve) => {
    onSecondRead = resolve
  })
  const watched = {
    readEvents(options: ReadEventsOptions = {}) {
      reads.push(options)
      if (reads.length === 2) onSecondRead()
      return ingest.project('p').readEvents(options)
    },
  }
  await submit('x', 'y', 'x')
  const events = followEvents(watched, { type: 'y', from: 1, onProgress: (cursor) => void progress.push(cursor) })
  const first = (await events.next()).value?.cursor
  const next = events.next()
  await secondRead
  await submit('x')
  await submit('y')
  const fifth = (await next).value?.cursor
  const all: string[] = []
  for await (const { cursor } of ingest.project('p').readEvents()) all.push(cursor)
  t.strictSame([first, fifth], [all[1], all[4]])
  t.strictSame(progress, all.slice(0, 4))
  t.match(reads, [
    { type: 'y', from: 1, waitMs: Number },
    { type: 'y', from: 1, waitMs: Number, after: all[2] as string },
  ])
  t.notOk('after' in (reads[0] ?? {}))
  await events.return(undefined as never)
  await ingest.close()
})

t.test('a signal ends followEvents with its reason', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const controller = new AbortController()
  const events = followEvents(ingest.project('p'), { signal: controller.signal })
  const next = events.next()
  controller.abort(new Error('enough'))
  await t.rejects(next, { message: 'enough' })
  await ingest.close()
})
