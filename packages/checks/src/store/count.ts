import assert from 'node:assert/strict'
import type { Cursor } from '@ingest/core'
import { expireAll } from './erase.ts'
import { appendSome, batchOf, event, readAll } from './sample-events.ts'
import { assertRefused, check, range, type StoreCheck } from './store-check.ts'

/** Counting the events of a range. */
export const countChecks: readonly StoreCheck[] = [
  check('the events after each cursor are counted, with the time of the first', async (store) => {
    const { lastCursor: start } = await store.totals('p')
    assert.deepEqual(await store.count('p', { after: start }, 9), { events: 0, batchesLeft: 0 })
    await appendSome(store)
    await store.append('p', batchOf([event('f')], { receivedAt: 5_000 }))
    const cursors = [start, ...(await readAll(store)).map(({ cursor }) => cursor)]
    // the batches are a b, c, d e, f
    const unread = [
      { batches: [2, 1, 2, 1], firstAt: 1_000 },
      { batches: [1, 1, 2, 1], firstAt: 1_000 },
      { batches: [1, 2, 1], firstAt: 1_000 },
      { batches: [2, 1], firstAt: 1_000 },
      { batches: [1, 1], firstAt: 1_000 },
      { batches: [1], firstAt: 5_000 },
      { batches: [] },
    ]
    for (const [i, { batches, ...first }] of unread.entries()) {
      for (const max of range(6)) {
        const events = batches.slice(0, max).reduce((sum, count) => sum + count, 0)
        const batchesLeft = Math.max(0, batches.length - max)
        const counted = await store.count('p', { after: cursors[i] as Cursor }, max)
        assert.deepEqual(counted, { events, batchesLeft, ...first }, `${max} batches after event ${i}`)
      }
    }
  }),

  check('many batches after a cursor are counted, or reported as left', async (store) => {
    const { lastCursor: start } = await store.totals('p')
    for (const i of range(150)) await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)]))
    for (const max of [0, 63, 64, 65, 149, 150, 1_000]) {
      const counted = Math.min(max, 150)
      const expected = { events: 2 * counted, batchesLeft: 150 - counted, firstAt: 1_000 }
      assert.deepEqual(await store.count('p', { after: start }, max), expected)
    }
  }),

  check('expired events are not counted after a cursor; events that were erased otherwise are', async (store) => {
    const { lastCursor: start } = await store.totals('p')
    for (const i of range(40)) {
      await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt: 1_000 + i }))
    }
    const cursors = (await readAll(store)).map(({ cursor }) => cursor)
    await store.erase('p', ['39-a'])
    assert.deepEqual(await store.count('p', { after: start }, 99), { events: 80, batchesLeft: 0, firstAt: 1_000 })
    await expireAll(store, 1_030)
    for (const after of [start, cursors[0], cursors[58], cursors[59]]) {
      const counted = await store.count('p', { after: after as Cursor }, 9)
      assert.deepEqual(counted, { events: 18, batchesLeft: 1, firstAt: 1_030 })
    }
    const counted = await store.count('p', { after: cursors[60] as Cursor }, 99)
    assert.deepEqual(counted, { events: 19, batchesLeft: 0, firstAt: 1_030 })
    await expireAll(store, 2_000)
    for (const after of [start, ...cursors]) {
      assert.deepEqual(await store.count('p', { after }, 9), { events: 0, batchesLeft: 0 })
    }
  }),

  check('events received since a time are counted, without those of other projects', async (store) => {
    const count = () => store.count('p', { from: 5_000 }, 100)
    await store.append('q', batchOf([event('a')], { receivedAt: 4_000 }))
    assert.deepEqual(await count(), { events: 0, batchesLeft: 0 })
    await store.append('p', batchOf([event('a'), event('b')], { receivedAt: 4_999 }))
    assert.deepEqual(await count(), { events: 0, batchesLeft: 0 })
    await store.append('p', batchOf([event('c'), event('d'), event('b')], { receivedAt: 5_000 }))
    await store.append('p', batchOf([event('e')], { receivedAt: 6_000 }))
    await store.append('p', batchOf([event('a')], { receivedAt: 6_000 }))
    await store.append('q', batchOf([event('b')], { receivedAt: 7_000 }))
    assert.deepEqual(await count(), { events: 3, batchesLeft: 0, firstAt: 5_000 })
  }),

  check('a count begins after its cursor and at its time, whichever is later', async (store) => {
    for (const i of range(70)) {
      await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt: 1_000 + i }))
    }
    const cursors = (await readAll(store)).map(({ cursor }) => cursor)
    for (const from of [undefined, 500, 1_000, 1_003, 1_069, 1_070]) {
      for (const read of [0, 1, 6, 7, 8, 139, 140]) {
        const after = read === 0 ? undefined : (cursors[read - 1] as Cursor)
        const first = Math.max(read, 2 * Math.max(0, (from ?? 0) - 1_000))
        const firstAt = first < 140 ? { firstAt: 1_000 + Math.floor(first / 2) } : {}
        for (const max of [0, 1, 2, 63, 64, 65, 70, 71]) {
          const end = max === 0 ? first : Math.min(140, 2 * (Math.floor(first / 2) + max))
          const expected = { events: end - first, batchesLeft: Math.ceil((140 - end) / 2), ...firstAt }
          assert.deepEqual(await store.count('p', { after, from }, max), expected, `${max} from ${from} after ${read}`)
        }
      }
    }
  }),

  check('a count of the events after a cursor refuses the same cursors as a read', async (store) => {
    const { lastCursor: ofEmpty } = await store.totals('empty')
    await appendSome(store)
    const [last, other] = [(await store.totals('p')).lastCursor, (await store.totals('q')).lastCursor]
    const changed = `${last.slice(0, -1)}${last.endsWith('A') ? 'B' : 'A'}`
    for (const cursor of ['', 'x', `${last}A`, changed, other, ofEmpty]) {
      await assertRefused(store.count('p', { after: cursor }, 9), 'invalid-cursor', JSON.stringify(cursor))
    }
    await assertRefused(store.count('empty', { after: last }, 9), 'invalid-cursor', 'the cursor of another project')
  }),
]
