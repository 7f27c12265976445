import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AppendBatch, ReadOptions, Store, StoredEvent } from '@ingest/core'
import { encodeEvents } from '@ingest/core/internal'
import {
  appended,
  appendLarge,
  appendSome,
  batchOf,
  event,
  frozenAt,
  idOfStored,
  idsOf,
  oddEvents,
  readAll,
  textOf,
} from './sample-events.ts'
import {
  check,
  type DurableStoreCheck,
  durableCheck,
  range,
  type SharedStoreCheck,
  type StoreCheck,
  sharedCheck,
} from './store-check.ts'

export const eraseChecks: readonly StoreCheck[] = [
  check('an erased event is a tombstone: known by its id, without its bytes', async (store) => {
    await appendSome(store)
    const before = await store.find('p', 'b')
    assert.equal(await store.erase('p', ['b']), 1)
    assert.deepEqual(await shownIn(store, { erased: true }), ['a', 'erased b', 'c', 'd', 'e'])
    const { bytes, ...tombstone } = (await store.find('p', 'b')) ?? assert.fail('its id is unknown')
    assert.equal(bytes.length, 0)
    assert.deepEqual(tombstone, { cursor: before?.cursor, receivedAt: before?.receivedAt, erased: 'b' })
    assert.deepEqual(await store.known('p', ['b']), [true])
    assert.ok(!('erased' in ((await store.find('p', 'c')) ?? {})))
  }),

  check('a read skips erased events, and counts only others towards its limit', async (store) => {
    await appendSome(store)
    await store.erase('p', ['a', 'd'])
    assert.deepEqual(await idsOf(store), ['b', 'c', 'e'])
    for (const limit of range(5)) {
      assert.deepEqual(await shownIn(store, { limit }), ['b', 'c', 'e'].slice(0, limit))
      const shown = ['erased a', 'b', 'c', 'erased d', 'e'].slice(0, limit)
      assert.deepEqual(await shownIn(store, { limit, erased: true }), shown)
    }
    await store.erase('p', ['b', 'c', 'e'])
    assert.deepEqual(await shownIn(store), [])
    assert.equal((await readAll(store, 'p', { erased: true })).length, 5)
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual(await shownIn(store), ['later'])
  }),

  check('erasing changes no cursor', async (store) => {
    await appendSome(store)
    const before = await readAll(store)
    const [last, start] = [(await store.totals('p')).lastCursor, (await store.totals('empty')).lastCursor]
    await store.erase('p', ['a', 'b', 'e'])
    await store.erase('p', ['c'])
    await store.expire('p', 1_000)
    assert.equal((await store.totals('p')).lastCursor, last)
    assert.equal((await store.totals('empty')).lastCursor, start)
    const all = await readAll(store, 'p', { erased: true })
    const withoutBytes = ({ cursor, receivedAt }: StoredEvent) => [cursor, receivedAt]
    assert.deepEqual(all.map(withoutBytes), before.map(withoutBytes))
    for (const [i, { cursor: after }] of before.entries()) {
      assert.deepEqual(await shownIn(store, { after }), i < 3 ? ['d'] : [])
      assert.deepEqual(await readAll(store, 'p', { after, erased: true }), all.slice(i + 1))
    }
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual(await shownIn(store, { after: last }), ['later'])
  }),

  check('an append of an erased id is a duplicate and no conflict, with any bytes', async (store) => {
    const batch = batchOf(['a', 'b', 'c'].map((id) => event(id)))
    await store.append('p', batch)
    await store.erase('p', ['b'])
    assert.deepEqual(await store.append('p', batch), duplicates(3))
    assert.deepEqual(await store.append('p', batchOf([event('b', { other: true })])), duplicates(1))
    const mixed = await store.append('p', batchOf([event('b', { other: true }), event('c', { n: 1 }), event('d')]))
    assert.deepEqual(mixed, appended([false, false, true], 1))
    await store.erase('p', ['a', 'c', 'd'])
    assert.deepEqual(await store.append('p', batch), duplicates(3))
    assert.deepEqual(await shownIn(store, { erased: true }), ['erased a', 'erased b', 'erased c', 'erased d'])
  }),

  check('an erasure counts events that it erases: not unknown ids, repeated ones, or tombstones', async (store) => {
    await appendSome(store)
    assert.equal(await store.erase('p', []), 0)
    assert.equal(await store.erase('p', ['x', 'a', 'a', 'y', 'c']), 2)
    assert.equal(await store.erase('p', ['a', 'b', 'c']), 1)
    assert.equal(await store.erase('p', ['a', 'b', 'c']), 0)
    assert.equal(await store.erase('unused', ['a']), 0)
    assert.deepEqual(await idsOf(store, 'q'), ['a', 'b'], 'another project with the same ids')
    assert.equal(await store.erase('q', ['a', 'b']), 2)
  }),

  check('a thousand ids can be erased at once', async (store) => {
    const ids = range(1_000).map((i) => `e-${i}`)
    for (const i of range(10)) {
      await store.append('p', batchOf(ids.slice(i * 100, i * 100 + 100).map((id) => event(id))))
    }
    const [even, odd] = [0, 1].map((rest) => ids.filter((_, i) => i % 2 === rest)) as [string[], string[]]
    assert.equal(await store.erase('p', odd), 500)
    assert.deepEqual(await idsOf(store), even)
    assert.equal(await store.erase('p', ids.reverse()), 500)
    assert.ok((await store.known('p', ids)).every(Boolean))
  }),

  check('any id can be erased, however it was written', async (store) => {
    await store.append('p', batchOf(oddEvents))
    const ids = (await readAll(store)).map(idOfStored)
    assert.equal(await store.erase('p', ids), ids.length)
    const erased = ids.map((id) => `erased ${id}`)
    assert.deepEqual(await shownIn(store, { erased: true }), erased)
    for (const id of ids) assert.equal((await store.find('p', id))?.erased, id)
    assert.deepEqual(await store.append('p', batchOf(oddEvents)), duplicates(oddEvents.length))
  }),

  check('totals count erased events, but not their bytes', async (store) => {
    await appendSome(store)
    const { bytes, ...counts } = await store.totals('p')
    await store.erase('p', ['b'])
    const { bytes: fewer, ...after } = await store.totals('p')
    assert.deepEqual(after, counts)
    assert.ok(fewer < bytes)
    await store.erase('p', ['a', 'b', 'c', 'd', 'e'])
    assert.deepEqual(await store.totals('p'), { ...counts, bytes: 0 })
    assert.deepEqual((await store.count('p', { from: 0 }, 100)).events, 5)
    await store.append('p', batchOf([event('later')]))
    assert.ok((await store.totals('p')).bytes > 0)
    assert.equal((await store.totals('p')).events, 6)
  }),

  check('a build stays frozen when the event that froze it is erased', async (store) => {
    await store.append('p', batchOf([event('a', { buildId: 'b' })], { receivedAt: 7_000 }))
    await store.erase('p', ['a'])
    assert.equal(await frozenAt(store, 'b'), 7_000)
    const { frozen } = await store.append('p', batchOf([event('later', { buildId: 'b' })], { receivedAt: 8_000 }))
    assert.deepEqual(frozen, [])
    assert.equal(await frozenAt(store, 'b'), 7_000)
  }),

  check('an expiry erases what was received before a time, in steps from the oldest event on', async (store) => {
    const times = range(30).map((i) => 1_000 + i)
    for (const receivedAt of times) {
      await store.append('p', batchOf([event(`${receivedAt}-a`), event(`${receivedAt}-b`)], { receivedAt }))
      await store.append('q', batchOf([event(`${receivedAt}`)], { receivedAt }))
    }
    const { bytes } = await store.totals('p')
    assert.deepEqual(await store.expire('p', 1_000), { events: 0, bytes: 0, isDone: true })
    const first = await expireAll(store, 1_010)
    assert.equal(first.events, 20)
    assert.equal((await store.totals('p')).bytes, bytes - first.bytes)
    const left = (from: number) => times.filter((time) => time >= from).flatMap((time) => [`${time}-a`, `${time}-b`])
    assert.deepEqual(await shownIn(store), left(1_010))
    assert.deepEqual(await store.expire('p', 1_010), { events: 0, bytes: 0, isDone: true })
    assert.deepEqual(await store.expire('p', 5), { events: 0, bytes: 0, isDone: true })
    assert.equal((await expireAll(store, 1_015)).events, 10)
    assert.deepEqual(await shownIn(store), left(1_015))
    assert.deepEqual(await shownIn(store, { from: 1_012 }), left(1_015))
    assert.equal((await expireAll(store, 1e9)).events, 30)
    assert.deepEqual(await shownIn(store), [])
    assert.equal((await readAll(store, 'p', { erased: true })).length, 60)
    assert.equal((await readAll(store, 'p', { erased: true, from: 1_020 })).length, 20)
    assert.deepEqual([(await store.totals('p')).bytes, (await store.totals('p')).events], [0, 60])
    assert.equal((await readAll(store, 'q')).length, 30, 'another project')
    await store.append('p', batchOf([event('later'), event('1000-a')], { receivedAt: 1_050 }))
    assert.deepEqual(await shownIn(store), ['later'])
    assert.deepEqual(await store.expire('unused', 1e9), { events: 0, bytes: 0, isDone: true })
  }),

  check('an expiry takes small steps, and each makes progress', async (store) => {
    const fill = 'x'.repeat(20_000)
    for (const i of range(40)) {
      await store.append('p', batchOf(range(10).map((n) => event(`${i}-${n}`, { fill }))))
    }
    const steps = []
    do steps.push(await store.expire('p', 2_000))
    while (!steps.at(-1)?.isDone && steps.length < 400)
    assert.ok(steps.length > 1, '8 MB in one step')
    assert.ok(steps.slice(0, -1).every(({ events }) => events > 0))
    const sum = steps.reduce((events, step) => events + step.events, 0)
    assert.equal(sum, 400)
  }),

  check('an expiry counts events that were erased before neither as events nor as bytes', async (store) => {
    await appendSome(store)
    await store.erase('p', ['a', 'd'])
    const { bytes } = await store.totals('p')
    assert.deepEqual(await expireAll(store, 2_000), { events: 3, bytes })
    assert.deepEqual(await shownIn(store), [])
  }),

  check('an event that is only its id is stored as a tombstone', async (store) => {
    await store.append('p', batchOf([event('a')]))
    assert.deepEqual(await store.append('p', mixedBatch(['a', 'b', '"\u00e9\\'])), appended([false, true, true]))
    assert.deepEqual(await shownIn(store, { erased: true }), ['a', 'erased b', 'erased "\u00e9\\'])
    assert.equal((await store.find('p', 'b'))?.erased, 'b')
    assert.deepEqual(await store.append('p', batchOf([event('b')])), duplicates(1))
    assert.deepEqual(await store.append('p', mixedBatch(['b', 'a'])), duplicates(2))
    assert.equal(await store.erase('p', ['b']), 0)
    const { events, bytes } = await store.totals('p')
    assert.equal(events, 3)
    assert.equal(await store.erase('p', ['a']), 1)
    assert.deepEqual([bytes > 0, (await store.totals('p')).bytes], [true, 0])
    for (const { cursor: after } of await readAll(store, 'p', { erased: true })) await readAll(store, 'p', { after })
    const mixed = await store.append('q', mixedBatch(['a', event('b'), 'c', event('d')]))
    assert.deepEqual(mixed, appended([true, true, true, true]))
    assert.deepEqual(await idsOf(store, 'q'), ['b', 'd'])
    assert.deepEqual([(await store.find('q', 'c'))?.erased, textOf(await store.find('q', 'b'))], ['c', event('b')])
  }),

  check('readers during erasures see each event whole or not at all, in order', async (store) => {
    const ids = range(200).map((i) => `e-${i}`)
    for (const i of range(20)) {
      await store.append('p', batchOf(ids.slice(i * 10, i * 10 + 10).map((id) => event(id, { of: id }))))
    }
    let isErasing = true
    const readers = range(3).map(async () => {
      do {
        const seen = await readAll(store)
        const numbers = seen.map((each) => ids.indexOf(idOfStored(each)))
        const whole = numbers.toSorted((a, b) => a - b).map((n) => event(`e-${n}`, { of: `e-${n}` }))
        assert.deepEqual(seen.map(textOf), whole)
        await nextTurn()
      } while (isErasing)
    })
    for (const i of range(40)) {
      const some = range(4).map((n) => `e-${i + n * 50}`)
      await store.erase('p', some)
    }
    await expireAll(store, 2_000)
    isErasing = false
    await Promise.all(readers)
    assert.deepEqual(await shownIn(store), [])
  }),

  check('a read goes on after an erasure between two pages, and shows no part of an event', async (store) => {
    const ids = await appendLarge(store)
    const texts = new Map((await readAll(store)).map((each) => [idOfStored(each), textOf(each)]))
    const isErased = (id: string) => ids.indexOf(id) % 3 === 0
    const reading = store.read('p')[Symbol.asyncIterator]()
    const seen: StoredEvent[] = []
    for (let next = await reading.next(); !next.done; next = await reading.next()) {
      if (seen.length === 0) await store.erase('p', ids.filter(isErased))
      seen.push(...next.value)
    }
    for (const each of seen) assert.equal(textOf(each), texts.get(idOfStored(each)))
    const seenIds = seen.map(idOfStored)
    assert.deepEqual(
      ids.filter((id) => seenIds.includes(id)),
      seenIds,
      'in order, each once',
    )
    const kept = ids.filter((id) => !isErased(id))
    assert.deepEqual(
      kept.filter((id) => !seenIds.includes(id)),
      [],
      'what is not erased is shown',
    )
    assert.deepEqual(await idsOf(store), kept)
  }),
]

export const handleEraseChecks: readonly SharedStoreCheck[] = [
  sharedCheck('an erasure through one handle holds for the others', async ([a, b, c]) => {
    await appendSome(a)
    const cursors = (await readAll(b)).map(({ cursor }) => cursor)
    for (const store of [b, c]) assert.deepEqual(await store.append('p', batchOf([event('c')])), duplicates(1))
    const reading = c.read('p')[Symbol.asyncIterator]()
    const firstPage: StoredEvent[] = (await reading.next()).value
    assert.equal(firstPage[0] && idOfStored(firstPage[0]), 'a')
    assert.equal(await a.erase('p', ['b', 'c']), 2)
    for (const store of [b, c]) {
      assert.deepEqual(await shownIn(store, { erased: true }), ['a', 'erased b', 'erased c', 'd', 'e'])
      assert.equal((await store.find('p', 'b'))?.erased, 'b')
      assert.equal(await store.erase('p', ['c']), 0)
      assert.deepEqual(await store.append('p', batchOf([event('b'), event('c', { n: 1 })])), duplicates(2))
      assert.deepEqual(await store.totals('p'), await a.totals('p'))
      for (const after of cursors) await readAll(store, 'p', { after })
    }
    const rest = firstPage.slice(1).map(idOfStored)
    for (let next = await reading.next(); !next.done; next = await reading.next())
      rest.push(...next.value.map(idOfStored))
    assert.deepEqual(rest.slice(-2), ['d', 'e'], 'a read that has begun')
    assert.equal((await expireAll(b, 2_000)).events, 3)
    assert.deepEqual(await shownIn(c), [])
    assert.deepEqual(await a.expire('p', 2_000), { events: 0, bytes: 0, isDone: true })
    await c.append('p', batchOf([event('later')]))
    assert.deepEqual(await shownIn(a), ['later'])
    assert.equal((await a.totals('p')).events, 6)
  }),
]

export const raceEraseChecks: readonly SharedStoreCheck[] = [
  sharedCheck('erasures and expiries through all handles during appends count each event once', async (handles) => {
    const ids = range(300).map((i) => `e-${i}`)
    let erased = 0
    await Promise.all(
      handles.map(async (store, at) => {
        for (const i of range(10)) {
          const own = ids.slice(at * 100 + i * 10, at * 100 + i * 10 + 10)
          await store.append('p', batchOf(own.map((id) => event(id))))
          const other = handles[(at + 1) % 3] as Store
          const [one, two, { events }] = await Promise.all([
            store.erase('p', own.slice(0, 6)),
            other.erase('p', own.slice(3, 8)),
            i % 3 === 0 ? other.expire('p', 2_000) : { events: 0 },
          ])
          erased += one + two + events
        }
      }),
    )
    const [a, b] = handles
    const left = await idsOf(a)
    assert.equal(left.length + erased, 300)
    assert.deepEqual((await a.known('p', ids)).includes(false), false)
    assert.equal(erased + (await expireAll(b, 2_000)).events, 300)
    for (const store of handles) {
      assert.deepEqual([(await store.totals('p')).bytes, (await store.totals('p')).events], [0, 300])
    }
  }),
]

export const durableEraseChecks: readonly DurableStoreCheck[] = [
  durableCheck('tombstones, their cursors and the progress of an expiry survive a close', async (store, reopen) => {
    await appendSome(store)
    await store.append('p', batchOf([event('f'), event('g')], { receivedAt: 3_000 }))
    const cursors = (await readAll(store)).map(({ cursor }) => cursor)
    await store.erase('p', ['g'])
    await expireAll(store, 2_000)
    const before = [await readAll(store, 'p', { erased: true }), await store.totals('p')]
    const reopened = await reopen()
    assert.deepEqual([await readAll(reopened, 'p', { erased: true }), await reopened.totals('p')], before)
    assert.deepEqual(await shownIn(reopened), ['f'])
    assert.equal((await reopened.find('p', 'g'))?.erased, 'g')
    for (const after of cursors.slice(0, 5)) assert.deepEqual(await shownIn(reopened, { after }), ['f'])
    assert.deepEqual(await reopened.append('p', batchOf([event('a'), event('g'), event('e')])), duplicates(3))
    assert.deepEqual(await reopened.expire('p', 2_000), { events: 0, bytes: 0, isDone: true })
  }),
]

const duplicates = (count: number) => appended(range(count).map(() => false))

/** The ids of the events that a read returns; those of tombstones follow "erased". */
async function shownIn(store: Store, options?: ReadOptions): Promise<string[]> {
  const shown: string[] = []
  for await (const page of store.read('p', options)) {
    for (const each of page) {
      if (each.erased !== undefined) assert.equal(each.bytes.length, 0)
      shown.push(each.erased === undefined ? idOfStored(each) : `erased ${each.erased}`)
    }
  }
  return shown
}

export async function expireAll(store: Store, before: number): Promise<{ events: number; bytes: number }> {
  const sum = { events: 0, bytes: 0 }
  for (;;) {
    const { events, bytes, isDone } = await store.expire('p', before)
    sum.events += events
    sum.bytes += bytes
    if (isDone) return sum
  }
}

/** A batch of events, given as JSON, and of tombstones, given as ids. */
function mixedBatch(elements: readonly string[]): AppendBatch {
  let body = '{"events":['
  const events = elements.map((element) => {
    const isEvent = element.startsWith('{')
    const text = isEvent ? element : JSON.stringify(element)
    const { eventId } = isEvent ? (JSON.parse(element) as { eventId: string }) : { eventId: element }
    const start = Buffer.byteLength(body)
    const end = start + Buffer.byteLength(text)
    const id = JSON.stringify(eventId)
    const idStart = isEvent ? start + Buffer.byteLength(text.slice(0, text.indexOf(id))) : start
    body += `${text},`
    return { eventId, start, end, idStart, idEnd: idStart + Buffer.byteLength(id) }
  })
  body = `${body.slice(0, -1)}]}`
  return { body: Buffer.from(body), events: encodeEvents(events, Buffer.alloc(16, 'sample')), receivedAt: 1_000 }
}
