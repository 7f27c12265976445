import assert from 'node:assert/strict'
import { batchBytesMax, type Cursor, type StoredEvent } from '@ingest/core'
import {
  appendLarge,
  appendSome,
  batchOf,
  event,
  frozenAt,
  idOfStored,
  idsOf,
  readAll,
  timesOf,
} from './sample-events.ts'
import { assertRefused, check, isolatedCheck, range, type StoreCheck } from './store-check.ts'

export const readChecks: readonly StoreCheck[] = [
  check('a read returns every event once, oldest first, with the time it was received', async (store) => {
    for (const i of range(10)) {
      await store.append('q', batchOf([event(`other-${i}`)]))
      await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt: 5_000 + i }))
    }
    const events = await readAll(store)
    const stored = range(10).flatMap((i) => ['a', 'b'].map((name) => [`${i}-${name}`, 5_000 + i]))
    const found = events.map((each) => [idOfStored(each), each.receivedAt])
    assert.deepEqual(found, stored)
    assert.equal(new Set(events.map(({ cursor }) => cursor)).size, 20)
  }),

  check('a read after the cursor of any event returns the next ones, as many as its limit', async (store) => {
    assert.deepEqual(await readAll(store, 'p', { limit: 5 }), [])
    const ids = await appendSome(store)
    const events = await readAll(store)
    for (const limit of [...range(ids.length + 2), Number.POSITIVE_INFINITY]) {
      assert.deepEqual(await readAll(store, 'p', { limit }), events.slice(0, limit))
      for (const [i, id] of ids.entries()) {
        const after = (await store.find('p', id))?.cursor as Cursor
        assert.equal(after, events[i]?.cursor)
        assert.deepEqual(await readAll(store, 'p', { after, limit }), events.slice(i + 1).slice(0, limit))
      }
    }
    const after = events.at(-1)?.cursor as Cursor
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual((await readAll(store, 'p', { after })).map(idOfStored), ['later'])
  }),

  check(
    'a read continues after the cursor of any event of a page, and its limit may end within a page',
    async (store) => {
      await appendLarge(store)
      const events = await readAll(store)
      assert.equal(events.length, 400)
      for (const at of [0, 1, 57, 99, 100, 256, 398, 399]) {
        const after = events[at]?.cursor as Cursor
        for (const limit of [1, 42, 100, 250, 1_000]) {
          assert.deepEqual(await readAll(store, 'p', { after, limit }), events.slice(at + 1, at + 1 + limit))
          assert.deepEqual(await readAll(store, 'p', { limit: at + 1 }), events.slice(0, at + 1))
        }
      }
    },
  ),

  check('a page is about as large as a batch at most', async (store) => {
    const fill = 'x'.repeat(500)
    for (const i of range(12)) await store.append('p', batchOf(range(100).map((j) => event(`${i}-${j}`, { fill }))))
    let count = 0
    for await (const page of store.read('p')) {
      count += page.length
      const bytes = page.reduce((sum, event) => sum + event.bytes.length, 0)
      assert.ok(bytes < 1.5 * batchBytesMax, `a page of ${bytes} bytes`)
    }
    assert.equal(count, 1_200)
  }),

  check('an event appended during a read is returned by it or by the next one, once', async (store) => {
    const ids = await appendSome(store)
    const seen: StoredEvent[] = []
    for await (const page of store.read('p')) {
      for (const each of page) {
        seen.push(each)
        if (seen.length > ids.length) continue
        await store.append('p', batchOf([event(`during-${seen.length}`)]))
      }
    }
    const after = seen.at(-1)?.cursor as Cursor
    const all = [...seen, ...(await readAll(store, 'p', { after }))].map(idOfStored)
    assert.deepEqual(all, [...ids, ...ids.map((_, i) => `during-${i + 1}`)])
  }),

  check('leaving a read early affects no later operation', async (store) => {
    const ids = await appendSome(store)
    for await (const page of store.read('p')) if (page.some((each) => idOfStored(each) === ids[1])) break
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual(await idsOf(store), [...ids, 'later'])
  }),

  check('a cursor that is malformed, changed, or of another project is refused', async (store) => {
    const totals = await Promise.all(['p', 'q', 'empty'].map((projectId) => store.totals(projectId)))
    const starts = totals.map(({ lastCursor }) => lastCursor)
    await appendSome(store)
    const [ofP, ofQ] = [await readAll(store, 'p'), await readAll(store, 'q')].map((events) =>
      events.map(({ cursor }) => cursor),
    ) as [Cursor[], Cursor[]]
    const strange = ['', 'x', '-1', '1.5', ' 0', '0 ', '0\n', '1e3', 'NaN', '٣', '\u0000', '😀', '9'.repeat(5_000)]
    for (const whole of [starts[0] as Cursor, ofP[2] as Cursor]) {
      strange.push(`${whole}A`, whole.slice(0, -1), whole.slice(1), `${whole} `, `${whole}=`)
      for (const i of range(whole.length)) {
        for (const character of ['A', 'B', '_', '='].filter((each) => each !== whole[i])) {
          strange.push(`${whole.slice(0, i)}${character}${whole.slice(i + 1)}`)
        }
      }
    }
    const refused = {
      p: [...strange, ...starts.slice(1), ...ofQ],
      q: [...starts.slice(0, 1), ...ofP],
      empty: [...strange, ...starts.slice(0, 1), ...ofP],
    }
    for (const [projectId, cursors] of Object.entries(refused)) {
      for (const after of cursors) {
        const what = `${JSON.stringify(after.slice(0, 60))} in ${projectId}`
        for (const read of [{ after }, { after, limit: 0 }]) {
          await assertRefused(readAll(store, projectId, read), 'invalid-cursor', what)
        }
      }
    }
  }),

  check('a cursor is short, and needs no escaping in a URL or on a command line', async (store) => {
    await appendSome(store)
    const cursors = [(await store.totals('p')).lastCursor, (await store.totals('empty')).lastCursor]
    for (const { cursor } of await readAll(store)) cursors.push(cursor)
    for (const cursor of cursors) assert.match(cursor, /^[A-Za-z0-9][\w-]{0,39}$/)
  }),

  isolatedCheck('a cursor of another store is refused, also where both have the same events', async (store, open) => {
    const other = await open()
    try {
      const cursors = [(await other.totals('p')).lastCursor, (await other.totals('empty')).lastCursor]
      for (const each of [store, other]) await appendSome(each)
      for (const { cursor } of await readAll(other)) cursors.push(cursor)
      for (const after of cursors) {
        for (const projectId of ['p', 'empty']) {
          await assertRefused(readAll(store, projectId, { after }), 'invalid-cursor', 'a cursor of another store')
        }
      }
    } finally {
      await other.close()
    }
  }),

  check('the time at which events were received never decreases along the log', async (store) => {
    for (const [i, receivedAt] of [5_000, 4_000, 4_999, 5_001, 1, 6_000].entries()) {
      await store.append('p', batchOf([event(`${i}`, { buildId: `${i}` })], { receivedAt }))
    }
    const times = [5_000, 5_000, 5_000, 5_001, 5_001, 6_000]
    assert.deepEqual(await timesOf(store), times)
    for (const [i, time] of times.entries()) {
      assert.equal((await store.find('p', `${i}`))?.receivedAt, time)
      assert.equal(await frozenAt(store, `${i}`), time)
    }
  }),

  isolatedCheck('a time far ahead of the clock is not taken for the event, nor for later ones', async (store) => {
    const [dayMs, yearMs] = [24 * 3600 * 1000, 365 * 24 * 3600 * 1000]
    const now = Date.now()
    await store.append('p', batchOf([event('a', { buildId: 'b' })], { receivedAt: now + yearMs }))
    await store.append('p', batchOf([event('b')], { receivedAt: now }))
    const times = await timesOf(store)
    for (const time of [...times, (await frozenAt(store, 'b')) ?? 0]) {
      assert.ok(Math.abs(time - now) < dayMs, `${new Date(time).toISOString()} is the present`)
    }
    assert.ok((times[0] as number) <= (times[1] as number), 'and they do not decrease')
  }),

  check('a read from a time returns the events received then or later', async (store) => {
    const times = range(40).map((i) => 1_000 + 10 * Math.floor(i / 3))
    for (const [i, receivedAt] of times.entries()) {
      await store.append(i % 4 === 1 ? 'q' : 'p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt }))
    }
    const events = await readAll(store)
    const since = (from: number) => events.filter(({ receivedAt }) => receivedAt >= from)
    const reads = [-1, 0, 999, ...range(140).map((i) => 1_000 + i), 1e15].map(async (from) =>
      assert.deepEqual(await readAll(store, 'p', { from }), since(from), `from ${from}`),
    )
    await Promise.all(reads)
    for (const [i, { cursor: after }] of events.entries()) {
      const pages = [0, 1_050, 1_051, 1_130, 1_131].map(async (from) => {
        const expected = since(from).filter((each) => events.indexOf(each) > i)
        assert.deepEqual(await readAll(store, 'p', { after, from, limit: 3 }), expected.slice(0, 3))
      })
      await Promise.all(pages)
    }
    assert.deepEqual(await readAll(store, 'empty', { from: 0 }), [])
  }),

  check('a read ends with the reason of its signal', async (store) => {
    await appendSome(store)
    await assert.rejects(readAll(store, 'p', { signal: AbortSignal.abort(new RangeError('before')) }), RangeError)
    const controller = new AbortController()
    const reading = store.read('p', { signal: controller.signal })[Symbol.asyncIterator]()
    await reading.next()
    controller.abort(new RangeError('in the middle'))
    await assert.rejects(reading.next(), RangeError)
  }),

  check('the last cursor is that of the last event, and is followed by later events only', async (store) => {
    await store.append('q', batchOf([event('other')]))
    const { lastCursor: before } = await store.totals('p')
    assert.deepEqual(await readAll(store, 'p', { after: before }), [])
    await appendSome(store)
    assert.deepEqual(await readAll(store, 'p', { after: before }), await readAll(store))
    await store.append('q', batchOf([event('later')]))
    const { lastCursor: after } = await store.totals('p')
    assert.equal(after, (await readAll(store)).at(-1)?.cursor)
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual((await readAll(store, 'p', { after })).map(idOfStored), ['later'])
  }),
]
