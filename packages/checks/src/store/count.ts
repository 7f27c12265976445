import assert from 'node:assert/strict'
import type { Cursor } from '@ingest/core'
import { expireAll } from './erase.ts'
import { appendSome, batchOf, event, readAll } from './sample-events.ts'
import { assertRefused, check, range, type StoreCheck } from './store-check.ts'

/** Counting the events after a cursor. */
export const countAfterChecks: readonly StoreCheck[] = [
  check('the events after each cursor are counted, with the time of the first', async (store) => {
    const start = await store.lastCursor('p')
    assert.deepEqual(await store.countAfter('p', start, 9), { events: 0, batchesLeft: 0 })
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
        const counted = await store.countAfter('p', cursors[i] as Cursor, max)
        assert.deepEqual(counted, { events, batchesLeft, ...first }, `${max} batches after event ${i}`)
      }
    }
  }),

  check('many batches after a cursor are counted, or reported as left', async (store) => {
    const start = await store.lastCursor('p')
    for (const i of range(150)) await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)]))
    for (const max of [0, 63, 64, 65, 149, 150, 1_000]) {
      const counted = Math.min(max, 150)
      const expected = { events: 2 * counted, batchesLeft: 150 - counted, firstAt: 1_000 }
      assert.deepEqual(await store.countAfter('p', start, max), expected)
    }
  }),

  check('expired events are not counted after a cursor; events that were erased otherwise are', async (store) => {
    const start = await store.lastCursor('p')
    for (const i of range(40)) {
      await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt: 1_000 + i }))
    }
    const cursors = (await readAll(store)).map(({ cursor }) => cursor)
    await store.erase('p', ['39-a'])
    assert.deepEqual(await store.countAfter('p', start, 99), { events: 80, batchesLeft: 0, firstAt: 1_000 })
    await expireAll(store, 1_030)
    for (const after of [start, cursors[0], cursors[58], cursors[59]]) {
      const counted = await store.countAfter('p', after as Cursor, 9)
      assert.deepEqual(counted, { events: 18, batchesLeft: 1, firstAt: 1_030 })
    }
    const counted = await store.countAfter('p', cursors[60] as Cursor, 99)
    assert.deepEqual(counted, { events: 19, batchesLeft: 0, firstAt: 1_030 })
    await expireAll(store, 2_000)
    for (const after of [start, ...cursors]) {
      assert.deepEqual(await store.countAfter('p', after, 9), { events: 0, batchesLeft: 0 })
    }
  }),

  check('a count of the events after a cursor refuses the same cursors as a read', async (store) => {
    const ofEmpty = await store.lastCursor('empty')
    await appendSome(store)
    const [last, other] = [await store.lastCursor('p'), await store.lastCursor('q')]
    const changed = `${last.slice(0, -1)}${last.endsWith('A') ? 'B' : 'A'}`
    for (const cursor of ['', 'x', `${last}A`, changed, other, ofEmpty]) {
      await assertRefused(store.countAfter('p', cursor, 9), 'invalid-cursor', JSON.stringify(cursor))
    }
    await assertRefused(store.countAfter('empty', last, 9), 'invalid-cursor', 'the cursor of another project')
  }),
]
