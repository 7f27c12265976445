import assert from 'node:assert/strict'
import type { ConsumerRecord, Cursor, Store } from '@ingest/core'
import { expireAll } from './erase.ts'
import { appendSome, batchOf, event, readAll } from './sample-events.ts'
import {
  assertRefused,
  check,
  range,
  rejectionOf,
  type SharedStoreCheck,
  type StoreCheck,
  sharedCheck,
} from './store-check.ts'

/** The positions of readers, and what is behind them. */
export const consumerChecks: readonly StoreCheck[] = [
  check('consumers are created, changed and deleted, and their projects are listed in byte order', async (store) => {
    assert.deepEqual([await store.consumers('p'), await store.consumerProjects()], [[], []])
    const written = [consumer('a'), consumer('b', 2)]
    for (const projectId of ['p', 'B', '_']) {
      const seen = await store.updateConsumers(projectId, (before) => ({ consumers: written, result: before }))
      assert.deepEqual(seen, [])
      assert.deepEqual(await store.consumers(projectId), written)
    }
    assert.deepEqual(await store.consumerProjects(), ['B', '_', 'p'])
    const changed = [consumer('a', 3)]
    const seen = await store.updateConsumers('p', (before) => ({ consumers: changed, result: before }))
    assert.deepEqual([seen, await store.consumers('p'), await store.consumers('B')], [written, changed, written])
    await store.updateConsumers('B', () => ({ consumers: [], result: undefined }))
    assert.deepEqual([await store.consumers('B'), await store.consumerProjects()], [[], ['_', 'p']])
    await store.updateConsumers('B', () => ({ consumers: changed, result: undefined }))
    assert.deepEqual(await store.consumers('B'), changed)
    assert.deepEqual(await store.projects(), [], 'a consumer makes no project')
  }),

  check('a decision about consumers that writes nothing, or throws, changes nothing', async (store) => {
    const thrown = new Error('no')
    const refuse = () => {
      throw thrown
    }
    for (const kept of [[], [consumer('a')]]) {
      await store.updateConsumers('p', () => ({ consumers: kept, result: undefined }))
      assert.equal(await store.updateConsumers('p', () => ({ result: 1 })), 1)
      assert.equal(await rejectionOf(store.updateConsumers('p', refuse)), thrown)
      assert.deepEqual(await store.consumers('p'), kept)
    }
  }),

  check('the events behind each cursor are counted, with the time of the first', async (store) => {
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

  check('many batches behind a cursor are counted, or said to be left', async (store) => {
    const start = await store.lastCursor('p')
    for (const i of range(150)) await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)]))
    for (const max of [0, 63, 64, 65, 149, 150, 1_000]) {
      const counted = Math.min(max, 150)
      const expected = { events: 2 * counted, batchesLeft: 150 - counted, firstAt: 1_000 }
      assert.deepEqual(await store.countAfter('p', start, max), expected)
    }
  }),

  check('events that an expiry has erased are not behind a cursor; others that were erased are', async (store) => {
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

  check('a cursor that a read refuses is refused by a count of what is behind it', async (store) => {
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

export const raceConsumerChecks: readonly SharedStoreCheck[] = [
  sharedCheck(
    'of concurrent moves of a consumer from one position, through all handles, one succeeds',
    async (handles) => {
      const rounds = 15
      for (const round of range(rounds)) {
        const moves = [...handles, ...handles].map((store) => moveFrom(store, round))
        const moved = (await Promise.all(moves)).filter(Boolean)
        assert.equal(moved.length, 1, `round ${round}`)
        for (const store of handles) assert.deepEqual(await store.consumers('p'), [consumer('shared', round + 1)])
      }
      const names = handles.flatMap((_, h) => range(8).map((i) => `${h}-${i}`))
      await Promise.all(names.map((name, i) => add(handles[i % 3] as Store, name)))
      for (const store of handles) {
        const kept = (await store.consumers('p')).map(({ name }) => name).sort()
        assert.deepEqual(kept, [...names, 'shared'].sort())
      }
    },
  ),
]

function consumer(name: string, position = 1): ConsumerRecord {
  return { name, cursor: `cursor-${position}`, updatedAt: position }
}

/** Moves the consumer `shared` on if it stands at this position; resolves to whether it did. */
function moveFrom(store: Store, position: number): Promise<boolean> {
  return store.updateConsumers('p', ([found]) =>
    (found?.updatedAt ?? 0) === position
      ? { consumers: [consumer('shared', position + 1)], result: true }
      : { result: false },
  )
}

function add(store: Store, name: string): Promise<void> {
  return store.updateConsumers('p', (before) => ({ consumers: [...before, consumer(name)], result: undefined }))
}
